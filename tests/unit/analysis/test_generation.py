"""Generation step by step, beside transformers' own ``generate`` and a plain forward pass."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import workbench
from tests.helpers import assert_near, run_command
from tests.model_folders import save_bart, save_bert
from tests.unit.tiny import tiny_causal
from workbench.analysis.generation import Decoding, generate_all, generate_steps
from workbench.errors import ConfigError, ModelError, TraceError
from workbench.figures.text import generation_view, step_view
from workbench.models import load


def test_a_decoder_writes_what_generate_writes() -> None:
    model = tiny_causal()
    found = generate_steps(model, "the cats sat", 6)
    ids = model.tokenizer("the cats sat", return_tensors="pt").input_ids
    expected = model.model.generate(ids, max_new_tokens=6, do_sample=False, pad_token_id=0)[0, ids.shape[1] :]
    assert found.tokens == tuple(model.tokenizer.convert_ids_to_tokens(expected.tolist()))
    read = ids[0].tolist()
    for step, token in zip(found.steps, expected.tolist(), strict=True):
        with torch.no_grad():
            plain = model.model(torch.tensor([read])).logits[0, -1].softmax(-1)
        assert step.candidates[0][0] == step.token  # greedy
        assert step.candidates[0][1] == pytest.approx(float(plain.max()), abs=1e-5)
        assert len(step.read) == len(read)
        np.testing.assert_allclose(step.attention.sum(-1), 1.0, atol=1e-5)
        read.append(token)


def test_an_encoder_decoder_attends_to_its_source(tmp_path) -> None:
    model = load(str(save_bart(tmp_path / "bart")), dtype="float32")
    found = generate_steps(model, "the cat sat", 4)
    assert found.attention_of == "cross"
    assert {step.read for step in found.steps} == {("<s>", "the", "cat", "sat", "</s>")}
    assert len(found.steps) == 4
    # the last token is forced to be the end (forced_eos_token_id), all before are the likeliest
    assert [step.candidates[0][0] == step.token for step in found.steps[:-1]] == [True] * 3
    assert found.tokens[-1] == "</s>"


def test_the_verb_and_tasks_go_on_from_the_same_tokens() -> None:
    """Of no text BOS, or else EOS; what a tokenizer appends to end a text is not read."""
    model = tiny_causal()
    for text in ("the cats sat", ""):
        tokens = [
            t for t in generate_steps(model, text, 5).tokens if t not in model.tokenizer.all_special_tokens
        ]
        assert " ".join(tokens) == workbench.generate(model, text, max_tokens=5).text
    whole = model.tokenizer("the cats sat").input_ids
    tokenizer = copy.copy(model.tokenizer)
    model = workbench.wrap(model.model, tokenizer, name="ends")
    tokenizer.eos_token = tokenizer.convert_ids_to_tokens(whole[-1])
    assert len(generate_steps(model, "the cats sat", 1).steps[0].read) == len(whole) - 1


def test_what_cannot_be_written_is_said(tmp_path) -> None:
    model = tiny_causal(positions=8)
    with pytest.raises(TraceError, match="3 tokens and 6 more do not fit"):
        generate_steps(model, "the cats sat", 6)
    with pytest.raises(ConfigError, match="count and top are 0 and 8"):
        generate_steps(model, "the", 0)
    with pytest.raises(ModelError, match="generation needs a causal or seq2seq model"):
        generate_steps(load(str(save_bert(tmp_path / "bert"))), "the")


def test_a_step_is_drawn_and_ranges_are_checked() -> None:
    found = generate_steps(tiny_causal(), "the cats sat", 3)
    frame = step_view(found, 0, layer=1, head=2).to_frame()
    np.testing.assert_allclose(frame["score"], found.steps[0].attention[1, 2], atol=1e-7)
    assert frame["score"].sum() == pytest.approx(1.0, abs=1e-5)
    with pytest.raises(ConfigError, match="step 9 is out of range"):
        step_view(found, 9)
    with pytest.raises(ConfigError, match="head 7 is out of range: 0 to 3"):
        step_view(found, 0, head=7)


def test_beams_are_those_of_transformers_and_each_token_has_its_probability() -> None:
    model = tiny_causal()
    found = generate_all(model, "the cats sat", 5, decoding=Decoding(beams=3))
    ids = model.tokenizer("the cats sat", return_tensors="pt").input_ids
    expected = model.model.generate(
        ids, max_new_tokens=5, do_sample=False, num_beams=3, num_return_sequences=3, pad_token_id=0
    )
    assert len(found) == 3
    for one, row in zip(found, expected.tolist(), strict=True):
        own = row[ids.shape[1] :]
        assert list(one.tokens) == model.tokenizer.convert_ids_to_tokens(own)
        with torch.no_grad():
            logs = model.model(torch.tensor([row])).logits[0].double().log_softmax(-1)[ids.shape[1] - 1 : -1]
        chosen = logs[range(len(own)), own]
        assert_near([step.probability for step in one.steps], chosen.exp(), 1e-4)
        assert_near([s.entropy for s in one.steps], -(logs.exp() * logs).sum(-1) / math.log(2), 1e-4)
        assert [step.rank for step in one.steps] == ((logs > chosen[:, None]).sum(-1) + 1).tolist()
        assert one.log_probability == pytest.approx(float(chosen.sum()), rel=1e-4)
        assert one.to_frame()["token"].tolist() == list(one.tokens)


def test_samples_depend_on_the_seed_alone_and_keep_to_the_likeliest() -> None:
    model = tiny_causal()
    first, again, other = (
        generate_all(model, "the cats sat", 6, decoding=Decoding(samples=4, top_k=3, seed=seed))
        for seed in (1, 1, 2)
    )
    assert [one.tokens for one in first] == [one.tokens for one in again]
    assert [one.tokens for one in first] != [one.tokens for one in other]
    assert max(step.rank for one in first for step in one.steps) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beams": 0}, "beams is 0; allowed: 1 or more"),
        ({"beams": 2, "samples": 2}, "beams 2 and samples 2 are different strategies; choose one of them"),
        ({"samples": 1, "temperature": 0.0}, "temperature is 0.0; allowed: above 0"),
        ({"samples": 1, "top_p": 1.5}, "top_p is 1.5; allowed: above 0 to 1"),
        ({"top_k": 5}, "top_k is of sampling and of contrastive search"),
        ({"temperature": 0.5}, "are of sampling"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_options_of_decoding_that_do_not_go_together(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Decoding(**options)


def test_generated_texts_are_drawn_with_what_else_was_likely() -> None:
    found = generate_all(tiny_causal(), "the <b>cats", 3, decoding=Decoding(beams=2))
    view = generation_view(found)
    assert "the &lt;b&gt;cats" in view.html
    assert len(view.to_frame()) == sum(len(one.steps) for one in found)
    assert len(found[0].figure().to_frame()) == len(found[0].steps)
    drawn = [text.get_text() for text in view.draw().axes[0].texts]
    assert len(drawn) == sum(
        1 + len(one.steps) for one in found
    )  # all texts, each behind its log-probability
    assert view.latex is not None
    for one in found:
        assert f"log-probability {one.log_probability:.2f} nats" in drawn
        assert f"log-probability {one.log_probability:.2f} nats" in view.latex()


def test_the_verb_prints_stores_and_explains_mistakes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run_command(
        "generate",
        "novels-decoder",
        "She was",
        "--beams",
        "2",
        "--max-tokens",
        "4",
        "--out",
        "g.csv",
        "--json",
    )
    assert (done.returncode, done.stderr) == (0, "")
    answer = json.loads(done.stdout)
    assert len(answer["texts"]) == 2
    first = answer["texts"][0]
    assert first["log_probability"] == pytest.approx(
        sum(math.log(token["probability"]) for token in first["tokens"])
    )
    assert Path("g.csv").read_text().count("\n") >= 9
    plain = run_command("generate", "novels-decoder", "She was", "--max-tokens", "4").stdout
    assert "log-probability" in plain
    asked = ("She was", "--max-tokens", "3", "--saliency", "occlusion")
    assert run_command("generate", "novels-decoder", *asked, "--out", "map.csv").returncode == 0
    lines = Path("map.csv").read_text().splitlines()
    assert sum(",entropy," in line for line in lines) == sum(",probability," in line for line in lines) == 3
    for arguments in (
        ("--saliency", "occlusion"),
        ("--top-p", "0.5"),
        ("--samples", "2", "--beams", "2"),
        ("--out", "g.xyz"),
    ):
        done = run_command("generate", "novels-decoder", "She was", *arguments)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
