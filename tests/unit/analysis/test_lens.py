"""The lens: its last layer is the output, its numbers are those of a plain computation by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from probes.features.extract import with_random_weights
from tests.unit.models.tiny import decoder, encoder, encoder_decoder
from tests.unit.trace import tiny
from workbench.analysis.lens import (
    continuation_by_layer,
    load_tuned_lens,
    logit_lens,
    save_tuned_lens,
    target_token,
    train_tuned_lens,
    tuned_lens,
)
from workbench.data import DataIdentity
from workbench.data.corpus import Corpus
from workbench.errors import DataError, ModelError, RunError, TraceError
from workbench.models import Kind, LoadedModel
from workbench.models.heads.causal import TransformerDecoderForCausalLM
from workbench.models.heads.generation import TransformerEncoderDecoderForConditionalGeneration
from workbench.models.heads.masked import TransformerEncoderForMaskedLM
from workbench.models.parts import NormConfig
from workbench.trace.residual import read_text, run_from, run_stack

TEXT = "the cat sat on the"


def builtin(kind: Kind, **norm: Any) -> LoadedModel:
    """A built-in model of two layers with that norm."""
    make, head = {
        Kind.CAUSAL: (decoder, TransformerDecoderForCausalLM),
        Kind.MASKED: (encoder, TransformerEncoderForMaskedLM),
        Kind.SEQ2SEQ: (encoder_decoder, TransformerEncoderDecoderForConditionalGeneration),
    }[kind]
    torch.manual_seed(0)
    return tiny.loaded(head(make(norm=NormConfig(**norm))), kind, special=kind is Kind.MASKED)


MODELS = {
    "llama": tiny.llama,
    "bert": tiny.bert,
    "albert, shared layers": tiny.albert,
    "t5": tiny.t5,
    "deberta, outputs route": tiny.deberta,
    "built-in pre-norm": lambda: builtin(Kind.CAUSAL, placement="pre"),
    "built-in post-norm": lambda: builtin(Kind.MASKED, placement="post"),
    "built-in sandwich": lambda: builtin(Kind.CAUSAL, placement="sandwich"),
    "built-in without final norm": lambda: builtin(Kind.CAUSAL, placement="pre", final=False),
    "built-in seq2seq": lambda: builtin(Kind.SEQ2SEQ, placement="pre"),
}


@pytest.mark.parametrize("name", MODELS)
def test_last_layer_is_the_output_bit_for_bit(name: str) -> None:
    model = MODELS[name]()
    reading = read_text(model, TEXT, "a dog" if model.kind is Kind.SEQ2SEQ else None)
    with torch.no_grad():
        run = run_stack(model, reading.inputs)
        last = run_from(model, run, run.layers, run.states[-1])
        plain = model.model(**reading.inputs).logits  # independent: the model called as anyone calls it
    assert torch.equal(last, plain)
    assert torch.equal(run.logits, plain)


def test_an_early_layer_is_read_through_final_norm_and_head() -> None:
    """By hand: norm, then output matrix, on the second layer's state as transformers gives it."""
    model = tiny.llama()
    reading = logit_lens(model, TEXT, target="mat", contrast="dog")
    network = model.model
    ids = torch.tensor([model.tokenizer(TEXT).input_ids])
    with torch.no_grad():
        hidden = network(ids, output_hidden_states=True).hidden_states[1]
        expected = network.lm_head(network.model.norm(hidden))[0].log_softmax(-1)
    wanted = model.tokenizer.convert_tokens_to_ids("mat")
    np.testing.assert_allclose(reading.target_log_probability[1], expected[:, wanted], atol=1e-5)
    probabilities = expected.exp()
    np.testing.assert_allclose(reading.entropy[1], -(probabilities * expected).sum(-1), atol=1e-5)
    rank = (expected > expected[:, [wanted]]).sum(-1) + 1
    assert reading.target_rank[1].tolist() == rank.tolist()
    assert reading.top_ids[1, :, 0].tolist() == expected.argmax(-1).tolist()
    np.testing.assert_allclose(reading.divergence[-1], 0, atol=1e-6)


def test_settling_layer_is_where_the_top_token_stops_changing() -> None:
    model = tiny.llama()
    reading = logit_lens(model, TEXT)
    top = reading.top_ids[:, :, 0]
    for position, first in enumerate(reading.settling):
        assert (top[first:, position] == top[-1, position]).all()
        assert first == 0 or top[first - 1, position] != top[-1, position]


def test_continuation_by_layer_sums_to_the_model_s_own_score() -> None:
    model = tiny.llama()
    ids = model.tokenizer(TEXT).input_ids
    found = continuation_by_layer(model, ids, 2)
    with torch.no_grad():
        own = model.model(torch.tensor([ids])).logits[0].log_softmax(-1)
    expected = [float(own[i - 1, ids[i]]) for i in range(2, len(ids))]
    np.testing.assert_allclose(found[-1], expected, atol=1e-6)
    assert found.shape == (4, len(ids) - 2)


@pytest.mark.parametrize("name", ["llama", "built-in seq2seq"])
def test_layers_read_together_are_as_read_one_by_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = MODELS[name]()
    target = "a dog" if model.kind is Kind.SEQ2SEQ else None
    together = logit_lens(model, TEXT, positions=[-1, 0], target_text=target)
    monkeypatch.setattr("workbench.analysis.lens._logit_lens._ROWS", 1)
    alone = logit_lens(model, TEXT, positions=[-1, 0], target_text=target)
    whole = logit_lens(model, TEXT, target_text=target)
    for quantity in ("entropy", "divergence", "target_log_probability"):
        np.testing.assert_allclose(getattr(together, quantity), getattr(alone, quantity), atol=1e-5)
        columns = getattr(whole, quantity)[:, list(together.positions)]
        np.testing.assert_allclose(getattr(together, quantity), columns, atol=1e-5)


def test_one_token_and_chosen_positions() -> None:
    model = tiny.llama()
    assert logit_lens(model, "cat").tokens == ("cat",)
    reading = logit_lens(model, TEXT, positions=[-1, 0])
    assert reading.positions == (4, 0)
    with pytest.raises(TraceError, match="position 7 is out of range: the text has 5 tokens"):
        logit_lens(model, TEXT, positions=[7])


def test_targets() -> None:
    model = tiny.llama()
    assert target_token(model, "mat").id == model.tokenizer.convert_tokens_to_ids("mat")
    several = target_token(model, "mat dog")
    assert (several.token, several.pieces) == ("mat", 2)
    assert several.note == "'mat dog' has 2 pieces; measured is its first, 'mat'"
    with pytest.raises(DataError, match="'zebra' is not in the vocabulary"):
        target_token(model, "zebra")
    with pytest.raises(DataError, match="both begin with 'mat'"):
        logit_lens(model, TEXT, target="mat", contrast="mat dog")
    with pytest.raises(DataError, match="needs a target"):
        logit_lens(model, TEXT, contrast="mat")


def test_a_model_without_vocabulary_head_says_so() -> None:
    with pytest.raises(ModelError, match="a lens needs a causal or masked or seq2seq model"):
        logit_lens(tiny.bert("AutoModel"), TEXT)


def corpus() -> Corpus:
    random = np.random.default_rng(0)
    words = tiny.WORDS.split()
    lines = [" ".join(words[i] for i in random.integers(len(words), size=12)) for _ in range(80)]
    return Corpus(DataIdentity("words", "here", "0" * 64, 80), lines=lines)


@pytest.mark.parametrize("build", [tiny.llama, tiny.bert])
def test_training_brings_every_layer_nearer_to_the_output(build: Any, tmp_path: Path) -> None:
    model = build()
    lens = train_tuned_lens(model, corpus(), steps=25, places=64, length=16, seed=1)
    before, after = lens.record.logit_divergence, lens.record.divergence
    assert all(a < b for a, b in zip(after[:-1], before[:-1], strict=True))
    assert after[-1] == before[-1] == pytest.approx(0, abs=1e-6)
    loaded = load_tuned_lens(save_tuned_lens(lens, tmp_path / "lens"), model)
    assert torch.equal(loaded.matrices, lens.matrices)
    assert loaded.record == lens.record
    reading = tuned_lens(model, loaded, TEXT)
    assert reading.lens == "tuned"
    # the translator by hand, at layer 1
    inner = read_text(model, TEXT)
    with torch.no_grad():
        run = run_stack(model, inner.inputs)
        state = run.states[1]
        moved = state + state @ lens.matrices[1].T + lens.biases[1]
        expected = run_from(model, run, run.layers, moved)[0].softmax(-1).max(-1).values
    np.testing.assert_allclose(reading.top_probabilities[1, :, 0], expected, atol=1e-6)


def test_a_lens_of_other_weights_is_refused(tmp_path: Path) -> None:
    model = tiny.llama()
    lens = train_tuned_lens(model, corpus(), steps=1, places=16, length=16)
    save_tuned_lens(lens, tmp_path)
    other = with_random_weights(model, seed=1)
    with pytest.raises(ModelError, match="was trained on"):
        load_tuned_lens(tmp_path, other)
    with pytest.raises(RunError, match="no tuned lens"):
        load_tuned_lens(tmp_path / "nowhere", model)
    with pytest.raises(ModelError, match="training a tuned lens"):
        train_tuned_lens(tiny.t5(), corpus())
