"""Generation step by step, beside transformers' own ``generate`` and a plain forward pass."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.model_folders import save_bart, save_bert
from tests.unit.tiny import tiny_causal
from workbench.analysis.generation import generate_steps
from workbench.errors import ConfigError, ModelError, TraceError
from workbench.figures.text import step_view
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
