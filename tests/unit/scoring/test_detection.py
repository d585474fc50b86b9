"""ELECTRA's discriminator with its head: against transformers' own model and plain loops."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf

import challenge_sets
import workbench
from tests.helpers import assert_near, run_command
from tests.unit.trace import tiny
from workbench.errors import ModelError, TaskError, TraceError
from workbench.models import Kind, LoadedModel
from workbench.models.configuration import EncoderConfig
from workbench.models.heads.masked import TransformerEncoderForReplacedTokenDetection
from workbench.models.parts import AttentionConfig, DepthConfig, FeedForwardConfig
from workbench.scoring import detect_replaced
from workbench.trace import trace

TEXTS = ["the cat sat", "the dog ran on the mat the"]


def electra() -> Any:
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    config = hf.ElectraConfig(vocab_size=len(tiny.tokenizer(True)), embedding_size=8, **sizes)
    return hf.ElectraForPreTraining(config)


def builtin() -> Any:
    return TransformerEncoderForReplacedTokenDetection(
        EncoderConfig(
            vocab_size=len(tiny.tokenizer(True)),
            hidden_size=16,
            attention=AttentionConfig(heads=2),
            feed_forward=FeedForwardConfig(size=32),
            depth=DepthConfig(layers=1),
            pad_token_id=0,
        )
    )


def weighty(make: Any) -> Any:
    """With weights that tell tokens apart: the usual small ones give one half everywhere."""
    torch.manual_seed(0)
    model = make().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model


@pytest.fixture(scope="module", params=[electra, builtin])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    """Saved and loaded again."""
    folder = tmp_path_factory.mktemp("detector")
    weighty(request.param).save_pretrained(folder)
    tiny.tokenizer(True).save_pretrained(folder)
    return workbench.load(str(folder), device="cpu")


def plain(model: LoadedModel, text: str) -> np.ndarray:
    """Logits of the text's own tokens, read alone."""
    read = model.tokenizer(text, return_tensors="pt", return_token_type_ids=False)
    with torch.no_grad():
        return model.model(**read).logits[0, 1:-1].double().numpy()


def test_it_is_loaded_with_its_head(model: LoadedModel) -> None:
    assert model.kind is Kind.DETECTOR
    assert workbench.wrap(model.model, model.tokenizer).kind is Kind.DETECTOR
    assert type(model.model).__name__ in (
        "ElectraForPreTraining",
        "TransformerEncoderForReplacedTokenDetection",
    )


def test_each_token_has_its_probability_and_a_text_its_mean(model: LoadedModel) -> None:
    """Several texts in one padded pass, against each read alone."""
    found = detect_replaced(model, TEXTS)
    for one, text in zip(found, TEXTS, strict=True):
        expected = 1 / (1 + np.exp(-plain(model, text)))
        assert expected.std() > 0.01
        assert_near(one.to_frame()["replaced"], expected, 1e-5)
        assert one.to_frame()["token"].tolist() == text.split()
        assert one.mean_log_original == pytest.approx(np.log(1 - expected).mean(), abs=1e-5)
    assert found.to_frame()["text"].tolist() == [0] * 3 + [1] * 7
    assert "mean log p(original)" in found.figure().html


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_minimal_pairs_are_compared_by_it(model: LoadedModel, reduction: str) -> None:
    scorer = challenge_sets.pair_scorer(model, reduction_name=reduction)
    (score,) = challenge_sets.score_pairs(scorer, [(TEXTS[0], TEXTS[1])])
    original = [np.log(1 / (1 + np.exp(plain(model, text)))) for text in TEXTS]
    expected = [getattr(logs, reduction)() for logs in original]
    assert (score.first, score.second) == pytest.approx(expected, abs=1e-4)
    assert score.tokens == (3, 7)
    assert "no likelihood" in scorer.policy


def test_it_is_traced_and_examined_and_what_it_does_not_give_is_refused(model: LoadedModel) -> None:
    assert trace(model, TEXTS, {"attention", "hidden"}).texts[0].attention.shape == (1, 2, 5, 5)
    for name, error, call in (
        ("surprisal", ModelError, lambda: workbench.surprisal(model, TEXTS[0])),
        ("attribute", TaskError, lambda: workbench.attribute(model, TEXTS[0])),
        ("logits", TraceError, lambda: trace(model, TEXTS, {"logits"})),
    ):
        with pytest.raises(error, match="replaced") as refused:
            call()
        assert "\n" not in str(refused.value), name
    with pytest.raises(ModelError, match="detection needs a detector model"):
        detect_replaced(tiny.bert(), TEXTS[0])


def test_the_self_check_passes(model: LoadedModel) -> None:
    report = workbench.doctor(model)
    assert report.verdict != "fail", report
    (scorer,) = (check for check in report.checks if "replaced-token detection" in check.detail)
    assert scorer.status == "pass"


def test_the_verb_prints_a_row_a_token(model: LoadedModel, tmp_path: Path) -> None:
    arguments = ["surprisal", str(model.path), TEXTS[0], "--device", "cpu"]
    done = run_command(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    expected = 1 / (1 + np.exp(-plain(model, TEXTS[0])))
    assert [row["replaced"] for row in record["tokens"]] == pytest.approx(expected.tolist(), abs=1e-5)
    shown = run_command(*arguments, "--out", str(tmp_path / "text.html"))
    assert "mean log p(original): " in shown.stdout
    assert (tmp_path / "text.html").is_file()


def test_a_set_of_minimal_pairs_is_checked(model: LoadedModel, tmp_path: Path) -> None:
    run = workbench.check(model, "pairs_builtin", limit_per_paradigm=1, out=tmp_path, doctor=False)
    assert run.results["pairs_builtin"]["accuracy"].n > 5
