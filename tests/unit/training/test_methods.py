"""Methods and kinds: weights that a folder lacks are trained by every method; what cannot be is refused beforehand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import workbench
from tests.unit.tiny import tiny_causal
from tests.unit.training.test_finetuning import cats_or_keys
from tests.unit.training.test_finetuning_kinds import models, rows_of
from workbench.errors import ConfigError
from workbench.models.configuration import EncoderConfig
from workbench.models.heads.masked import TransformerEncoderForMaskedLM
from workbench.training.finetuning import AnswerKind, FineSettings, FineTask, Method, finetune, load_task
from workbench.training.finetuning.encoding import collate, encode
from workbench.training.finetuning.heads import load_with_head
from workbench.training.finetuning.methods import apply_method

__all__ = ["models"]  # the fixture


@pytest.fixture
def masked(models: Path, tmp_path: Path) -> Path:
    """A masked language model: its folder has no pooler."""
    torch.manual_seed(0)
    config = EncoderConfig.from_pretrained(models / "encoder")
    TransformerEncoderForMaskedLM(config).save_pretrained(tmp_path / "masked")
    workbench.load(str(models / "encoder"), device="cpu").tokenizer.save_pretrained(tmp_path / "masked")
    return tmp_path / "masked"


@pytest.mark.parametrize("method", ["full", "head", "lora", "adapter", "prompt"])
def test_a_fresh_pooler_is_trained_by_every_method_and_stored(
    method: str, masked: Path, tmp_path: Path
) -> None:
    """It is drawn from the seed, so the untrained one is known; the opened folder has another."""
    rows = load_task(cats_or_keys(tmp_path))
    settings = FineSettings(
        method=Method(method), epochs=2, batch_size=16, lr=0.01, virtual_tokens=3, precision="float32"
    )
    torch.manual_seed(0)
    headed = load_with_head(str(masked), rows.task)
    assert any("pooler" in name for name in headed.fresh)
    finetune(str(masked), rows, tmp_path / "out", settings, device="cpu")
    loaded = workbench.load(str(tmp_path / "out"), dtype="float32", device="cpu").model
    inner = loaded.get_base_model() if hasattr(loaded, "get_base_model") else loaded
    found = {n.replace(".modules_to_save.default", ""): p for n, p in inner.named_parameters()}
    for name, parameter in headed.model.named_parameters():
        if "pooler" in name:
            assert not torch.allclose(found[name], parameter, atol=1e-4), name


def test_a_head_reaches_a_logistic_regression_on_the_same_frozen_states(masked: Path, tmp_path: Path) -> None:
    rows = load_task(cats_or_keys(tmp_path))
    headed = load_with_head(str(masked), rows.task)
    body, states = headed.model.eval().base_model, []
    for part in (rows.train, rows.validation):
        batch = collate(encode(part, rows.task, headed.tokenizer, 16), 0)
        with torch.inference_mode():
            output = body(batch["input_ids"], attention_mask=batch["attention_mask"])
        states.append((output.last_hidden_state[:, 0].numpy(), np.asarray(batch["labels"])))
    expected = LogisticRegression(C=1e4, max_iter=20_000).fit(*states[0]).score(*states[1])
    settings = FineSettings(method=Method.HEAD, epochs=60, batch_size=16, lr=0.02, precision="float32")
    run = finetune(str(masked), rows, tmp_path / "out", settings, device="cpu")
    assert expected > 0.9
    assert run.results["rows"]["accuracy"].value >= expected - 1 / len(rows.validation)


def test_choices_are_judged_while_lora_still_stands_around_the_model(models: Path, tmp_path: Path) -> None:
    """With patience the model is judged after each epoch, before the updates are merged."""
    settings = FineSettings(method=Method.LORA, epochs=1, batch_size=8, patience=1, precision="float32")
    rows = rows_of("choice", tmp_path)
    assert finetune(str(models / "encoder"), rows, tmp_path / "out", settings, device="cpu").complete


@pytest.mark.parametrize("method", [Method.LORA, Method.ADAPTER, Method.PREFIX, Method.PROMPT])
def test_an_output_layer_that_is_not_new_stays_as_it_is(method: Method) -> None:
    """As with plain PEFT: responses need no head, and Llama's output layer is no part of its body."""
    model = tiny_causal().model
    assert not model.config.tie_word_embeddings
    applied = apply_method(model, method, AnswerKind.RESPONSE, virtual_tokens=3)
    trained = [name for name, p in applied.named_parameters() if p.requires_grad]
    assert trained
    assert not any("lm_head" in name for name in trained)


def test_a_prefix_trains_a_built_in_decoder(models: Path, tmp_path: Path) -> None:
    """Its keys and values come in as ``past_key_values``; the opened folder has what was learned."""
    settings = FineSettings(
        method=Method.PREFIX, epochs=2, batch_size=8, lr=0.1, virtual_tokens=3, precision="float32"
    )
    rows = rows_of("response", tmp_path)
    assert finetune(str(models / "decoder"), rows, tmp_path / "out", settings, device="cpu").complete
    ids = torch.tensor([[3, 4, 5]])
    before, after = (
        workbench.load(str(path), dtype="float32", device="cpu").model(ids, use_cache=False).logits.detach()
        for path in (models / "decoder", tmp_path / "out")
    )
    assert after.shape == before.shape
    assert not torch.allclose(before, after, atol=1e-3)


REFUSED = [
    ("encoder", "class", "prefix", "cannot train this .* to --kind class"),
    ("encoder", "choice", "prompt", "method prompt does not go with --kind choice"),
    ("encoder", "tokens", "prompt", "method prompt does not go with --kind tokens"),
    ("encoder", "span", "prompt", "method prompt does not go with --kind span"),
    ("decoder", "response", "head", "method head does not go with --kind response"),
]


@pytest.mark.parametrize(("shape", "kind", "method", "message"), REFUSED)
def test_what_cannot_be_is_refused_before_training_and_leaves_no_folder(
    shape: str, kind: str, method: str, message: str, models: Path, tmp_path: Path
) -> None:
    settings = FineSettings(method=Method(method), epochs=1, virtual_tokens=3, precision="float32")
    with pytest.raises(ConfigError, match=message) as caught:
        finetune(str(models / shape), rows_of(kind, tmp_path), tmp_path / "out", settings, device="cpu")
    assert "\n" not in str(caught.value)
    assert "lora" in str(caught.value)  # what to do instead
    assert not (tmp_path / "out").exists()


def test_prompts_before_responses_are_judged_at_the_responses(models: Path, tmp_path: Path) -> None:
    """The loss is that of PEFT's own forward pass, which leaves the vectors unscored."""
    rows = rows_of("response", tmp_path)
    settings = FineSettings(
        method=Method.PROMPT, epochs=1, virtual_tokens=3, batch_size=8, precision="float32"
    )
    run = finetune(str(models / "decoder"), rows, tmp_path / "out", settings, device="cpu")
    loaded = workbench.load(str(tmp_path / "out"), dtype="float32", device="cpu")
    features = encode(rows.validation[:1], rows.task, loaded.tokenizer, 29)
    with torch.inference_mode():
        expected = float(loaded.model(**collate(features, 0)).loss)
    assert run.results["rows"]["loss"].value == pytest.approx(expected, rel=1e-5)  # all rows are the same


def test_lora_leaves_fresh_modules_to_be_trained_whole(masked: Path) -> None:
    task = FineTask("t", AnswerKind.CLASS, "text", "label", labels=("no", "yes"))
    headed = load_with_head(str(masked), task)
    model = apply_method(headed.model, Method.LORA, AnswerKind.CLASS, fresh=headed.fresh)
    trained = {n for n, p in model.named_parameters() if p.requires_grad}
    assert any("pooler" in name and "modules_to_save" in name for name in trained)
    assert not any("pooler" in name and "lora_" in name for name in trained)
