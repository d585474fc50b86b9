"""The built-in models against transformers: the same numbers from the same weights, within 1e-5 in float32."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.parity.families import CASES, PADDING, batch
from workbench.models.imports import family_of, to_builtin

TOLERANCE = 1e-5
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


def close(ours: Tensor, theirs: Tensor, what: str) -> None:
    torch.testing.assert_close(
        ours, theirs, atol=TOLERANCE, rtol=TOLERANCE, msg=lambda text: f"{what}: {text}"
    )


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
    original, builtin = models(name)
    set_backend(backend, original, builtin)
    inputs = batch(CASES[name].kind, padding)
    mask = inputs["attention_mask"]
    outputs = []
    for model in (original, builtin):
        model.train(training).zero_grad()
        outputs.append(model(**inputs, output_hidden_states=True, output_attentions=backend == "eager"))
    theirs, ours = outputs

    for field in LOGITS:
        if theirs.get(field) is None:
            continue
        is_by_token = theirs[field].shape[:2] == mask.shape and field != "seq_relationship_logits"
        pick = (lambda t: at_tokens(t, mask)) if is_by_token else (lambda t: t)
        close(pick(ours[field]), pick(theirs[field]), field)
    for field in SOURCE_SIDE + TARGET_SIDE:
        if not theirs.get(field):
            continue
        assert len(ours[field]) == len(theirs[field]), field
        for layer, (our, their) in enumerate(zip(ours[field], theirs[field], strict=True)):
            if field in SOURCE_SIDE:
                our, their = at_tokens(our, mask), at_tokens(their, mask)
            close(our, their, f"{field}[{layer}]")

    if theirs.get("loss") is not None:
        close(ours.loss, theirs.loss, "loss")
        theirs.loss.backward()
        ours.loss.backward()
        check_gradients(original, builtin)


def check_gradients(original: Any, builtin: Any) -> None:
    family = family_of(original.config.model_type)
    gradients = {n: p.grad for n, p in original.named_parameters() if p.grad is not None}
    named = dict(builtin.named_parameters(remove_duplicate=False))
    translated = family.translate(original, gradients)
    assert (
        len({id(named[n]) for n in translated}) >= len(list(builtin.parameters())) - 1
    )  # BART's bias is constant
    for name, gradient in translated.items():
        close(named[name].grad, gradient, f"gradient of {name}")


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
            close(our, their, f"scores of step {step} with {beams} beams")


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
    close(builtin(**inputs, logits_to_keep=2).logits, full[:, -2:], "logits")
