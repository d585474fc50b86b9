"""Scores of every architecture family against plain forward passes of transformers, one text at a time."""

from __future__ import annotations

import warnings

import pytest
import torch

from tests.plain_scores import plain_masked_logits, plain_scores
from tests.unit.trace.tiny import loaded
from workbench.models import Kind, LoadedModel
from workbench.scoring import Blank, Engine, MaskedEngine, Request, Seq2SeqEngine, score_cloze
from workbench.trace.architectures import FAMILIES, Architecture, build_tiny

TEXTS = ("the cat sat on the mat because it ran", "a big red dog saw the old house .", "a dog ran")
KINDS = {
    "AutoModelForMaskedLM": Kind.MASKED,
    "AutoModelForCausalLM": Kind.CAUSAL,
    "AutoModelForSeq2SeqLM": Kind.SEQ2SEQ,
}
# XLNet reads both sides unless it is given a permutation mask, and what ProphetNet's decoder predicts changes with
# later tokens: neither has scores of continuations (tests/contracts/test_measured.py).
BY_KIND = {
    kind: [f for f in FAMILIES if KINDS[f.auto] is kind and f.model_type not in {"xlnet", "prophetnet"}]
    for kind in KINDS.values()
}


def tiny(family: Architecture) -> LoadedModel:
    """The family's tiny model, with weights large enough that texts differ in their scores."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tiny configurations make some families complain
        network = build_tiny(family)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(3)
        for name, parameter in network.named_parameters():
            if "norm" not in name.lower() and parameter.ndim > 1:
                torch.nn.init.normal_(parameter, std=0.2)
    kind = KINDS[family.auto]
    return loaded(network, kind, special=kind is Kind.MASKED)


def close(found: list[float], expected: list[float]) -> None:
    assert found == pytest.approx(expected, abs=2e-4, rel=2e-5)


def by_name(kind: Kind) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("family", BY_KIND[kind], ids=lambda family: family.model_type)


@by_name(Kind.CAUSAL)
def test_continuations(family):
    model = tiny(family)
    requests = [Request("the old dog", f" {text}") for text in TEXTS] + [
        Request(TEXTS[0], f" {text}") for text in TEXTS
    ]
    expected = [plain_scores(model, r.continuation, r.context) for r in requests]
    engine = Engine(model)
    for found in (engine.score(requests), engine.score_shared(engine.encode(requests))):
        for score, right in zip(found, expected, strict=True):
            close(list(score.token_log_probabilities), right)


@by_name(Kind.MASKED)
def test_pseudo_log_likelihood_and_cloze(family):
    model = tiny(family)
    for score, text in zip(MaskedEngine(model).score(TEXTS), TEXTS, strict=True):
        close(list(score.token_log_probabilities), plain_scores(model, text))
    (cloze,) = score_cloze(model, [Blank("the cat ", " on the mat", "sat")])
    encoded = model.tokenizer("the cat sat on the mat")
    logits = plain_masked_logits(model, encoded, [3])[3]  # [CLS] the cat [MASK]
    answer = encoded.input_ids[3]
    close([cloze.log_probability], [float(logits.log_softmax(-1)[answer])])
    assert cloze.rank == 1 + int((logits > logits[answer]).sum())


@by_name(Kind.SEQ2SEQ)
def test_targets(family):
    model = tiny(family)
    requests = [Request(source, target) for source, target in zip(TEXTS, (TEXTS[2], *TEXTS[:2]), strict=True)]
    for score, request in zip(Seq2SeqEngine(model).score(requests), requests, strict=True):
        close(list(score.token_log_probabilities), plain_scores(model, request.continuation, request.context))
