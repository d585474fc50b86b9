"""The built-in models against transformers: the same numbers from the same weights.

In float32 within 1e-5 of the largest entry. Where a processor rounds worse than that, float64 decides: weights, inputs
and matrix products in float64 must agree within the same bound (norms, softmax and losses of some families stay in
float32 there), and the float32 difference, which then is rounding, may be ten times as large.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.helpers import assert_near
from tests.parity.families import CASES, PADDING, batch
from workbench.models.imports import family_of, to_builtin

TOLERANCE = 1e-5  # of the largest entry
GENERATING = [name for name, case in CASES.items() if case.kind in ("causal", "seq2seq")]
LOGITS = (
    "logits",
    "prediction_logits",
    "seq_relationship_logits",
    "start_logits",
    "end_logits",
    "pooler_output",
)
TARGET_SIDE = ("decoder_hidden_states", "decoder_attentions", "cross_attentions")
SOURCE_SIDE = ("hidden_states", "attentions", "encoder_hidden_states", "encoder_attentions")


@cache
def models(name: str) -> tuple[Any, Any]:
    original = CASES[name].build()
    return original, to_builtin(original)


@cache
def models_in_float64(name: str) -> tuple[Any, Any]:
    original = CASES[name].build().double()
    return original, to_builtin(original).double()


def at_tokens(states: Tensor, mask: Tensor) -> Tensor:
    """States (B, T, …) or attention maps (B, H, T, K) at real tokens only; padding may hold anything."""
    if states.ndim == 4:
        states = states.transpose(1, 2)
    return states[mask.bool()]


def set_backend(backend: str, *both: Any) -> None:
    for model in both:
        is_supported = model._supports_sdpa or backend == "eager"  # transformers' BLOOM is eager only
        model.set_attn_implementation(backend if is_supported else "eager")


@pytest.mark.parametrize("backend", ["eager", "sdpa"])
@pytest.mark.parametrize("padding", ["none", "left", "right"])
@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("name", CASES)
def test_forward_and_backward(name: str, training: bool, padding: str, backend: str) -> None:
    inputs = batch(CASES[name].kind, padding)

    def differs(both: tuple[Any, Any], tolerance: float) -> AssertionError | None:
        set_backend(backend, *both)
        try:
            compare(*both, inputs, training, tolerance)
        except AssertionError as error:
            return error
        return None

    found = differs(models(name), TOLERANCE)
    if found is None:
        return
    if differs(models(name), 10 * TOLERANCE) or differs(models_in_float64(name), TOLERANCE):
        raise found


def compare(original: Any, builtin: Any, inputs: dict[str, Tensor], training: bool, tolerance: float) -> None:
    """Logits, hidden states, attention, loss and gradients of the two on one batch."""
    mask = inputs["attention_mask"]
    is_eager = all(model.config._attn_implementation == "eager" for model in (original, builtin))
    outputs = []
    for model in (original, builtin):
        model.train(training).zero_grad()
        outputs.append(model(**inputs, output_hidden_states=True, output_attentions=is_eager))
    theirs, ours = outputs

    for field in LOGITS:
        if theirs.get(field) is None:
            continue
        is_by_token = theirs[field].shape[:2] == mask.shape and field != "seq_relationship_logits"
        pick = (lambda t: at_tokens(t, mask)) if is_by_token else (lambda t: t)
        assert_near(pick(ours[field]), pick(theirs[field]), tolerance, field)
    for field in SOURCE_SIDE + TARGET_SIDE:
        if not theirs.get(field):
            continue
        assert len(ours[field]) == len(theirs[field]), field
        for layer, (our, their) in enumerate(zip(ours[field], theirs[field], strict=True)):
            if field in SOURCE_SIDE:
                our, their = at_tokens(our, mask), at_tokens(their, mask)
            assert_near(our, their, tolerance, f"{field}[{layer}]")

    if theirs.get("loss") is not None:
        assert_near(ours.loss, theirs.loss, tolerance, "loss")
        theirs.loss.backward()
        ours.loss.backward()
        compare_gradients(original, builtin, tolerance)


def compare_gradients(original: Any, builtin: Any, tolerance: float) -> None:
    """Every weight's gradient under transformers' name for it.

    A gradient that is zero in exact arithmetic (of a key's bias: softmax ignores what all keys share) is what is left
    of terms that cancel; a hundredth of the model's largest gradient stands for their size.
    """
    family = family_of(original.config.model_type)
    gradients = {n: p.grad for n, p in original.named_parameters() if p.grad is not None}
    named = dict(builtin.named_parameters(remove_duplicate=False))
    translated = family.translate(original, gradients)
    assert (
        len({id(named[n]) for n in translated}) >= len(list(builtin.parameters())) - 1
    )  # BART's bias is constant
    least = 0.01 * max(float(gradient.abs().max()) for gradient in translated.values())
    for name, gradient in translated.items():
        assert_near(named[name].grad, gradient, tolerance, f"gradient of {name}", least)


@pytest.mark.parametrize("backend", ["eager", "sdpa"])
@pytest.mark.parametrize("padding", ["none", "left"])
@pytest.mark.parametrize("name", GENERATING)
def test_cached_generation(name: str, padding: str, backend: str) -> None:
    """Greedy and beam search give the same tokens; step by step, the cached scores are those of transformers."""
    original, builtin = models(name)
    set_backend(backend, original.eval(), builtin.eval())
    inputs = {
        k: v for k, v in batch(CASES[name].kind, padding).items() if k in ("input_ids", "attention_mask")
    }
    settings: dict[str, Any] = {
        "max_new_tokens": 9,
        "min_new_tokens": 9,
        "do_sample": False,
        "pad_token_id": PADDING,
        "output_scores": True,
        "return_dict_in_generate": True,
    }
    for beams in (1, 3):
        theirs = original.generate(**inputs, num_beams=beams, **settings)
        ours = builtin.generate(**inputs, num_beams=beams, **settings)
        assert torch.equal(ours.sequences, theirs.sequences)
        for step, (our, their) in enumerate(zip(ours.scores, theirs.scores, strict=True)):
            assert_near(our, their, TOLERANCE, f"scores of step {step} with {beams} beams")


@pytest.mark.parametrize("name", GENERATING)
def test_cache_changes_nothing(name: str) -> None:
    """Generation with and without a cache is the same text, sampled with one seed."""
    _, builtin = models(name)
    set_backend("eager", builtin.eval())
    inputs = {
        k: v for k, v in batch(CASES[name].kind, "left").items() if k in ("input_ids", "attention_mask")
    }
    texts = []
    for use_cache in (True, False):
        torch.manual_seed(0)
        texts.append(
            builtin.generate(
                **inputs, max_new_tokens=8, do_sample=True, top_k=0, use_cache=use_cache, pad_token_id=PADDING
            )
        )
    assert torch.equal(*texts)


@pytest.mark.parametrize("name", GENERATING)
def test_logits_to_keep(name: str) -> None:
    """The last two positions are those of the full logits."""
    _, builtin = models(name)
    set_backend("eager", builtin.eval())
    inputs = batch(CASES[name].kind, "none")
    full = builtin(**inputs).logits
    inputs["decoder_input_ids" if CASES[name].kind == "seq2seq" else "input_ids"] = (
        builtin.prepare_decoder_input_ids_from_labels(inputs["labels"])
        if CASES[name].kind == "seq2seq"
        else inputs["input_ids"]
    )
    del inputs["labels"]
    assert_near(builtin(**inputs, logits_to_keep=2).logits, full[:, -2:], TOLERANCE, "logits")
