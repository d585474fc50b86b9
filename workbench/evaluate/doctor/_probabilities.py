"""Probabilities sum to one, and the scorer reports the model's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from workbench.evaluate.doctor._compare import agree, judge
from workbench.evaluate.doctor._records import Finding, NotApplicable
from workbench.evaluate.doctor._subject import TEXTS, padded, real_outputs, sample_sequences
from workbench.models import Kind, LoadedModel
from workbench.models.problem import ProblemType, problem_of
from workbench.scoring import Engine, MaskedEngine, Request, Score, Seq2SeqEngine

__all__ = ["probabilities_sum", "scorer_log_probabilities"]


def probabilities_sum(loaded: LoadedModel) -> Finding:
    """exp of the float32 log-softmax sums to 1 at every position. Value: the largest deviation.

    A vocabulary of 10^5 float32 terms, added up in float64, is off by some 1e-6; 1e-4 is allowed.
    """
    if loaded.kind is Kind.ENCODER:
        raise NotApplicable("a model without a head has no probabilities")
    if problem_of(loaded.model) is not ProblemType.ONE_LABEL:
        raise NotApplicable(f"problem_type {problem_of(loaded.model)}: the outputs are no alternatives")
    logits = real_outputs(loaded, padded(loaded, sample_sequences(loaded)[:1]))
    sums = logits.float().log_softmax(-1).exp().double().sum(-1)
    return judge(
        float((sums - 1).abs().max()), 1e-4, f"|sum of probabilities - 1| over {logits.shape[-1]} classes"
    )


def scorer_log_probabilities(loaded: LoadedModel) -> Finding:
    """The scores of texts, by the engine of the model's kind, are those of a plain log-softmax over all logits.

    The engines pad, batch and project only where they score; the reference does none of these.
    """
    scorers = {Kind.CAUSAL: _continuations, Kind.MASKED: _hidden_tokens, Kind.SEQ2SEQ: _targets}
    if loaded.kind not in scorers:
        raise NotApplicable(f"a model of kind {loaded.kind} gives no log-probabilities of text")
    plain, found, what = scorers[loaded.kind](loaded)
    return agree(plain, found, loaded.dtype, f"{what} against log-softmax of all logits, {len(plain)} tokens")


def _continuations(loaded: LoadedModel) -> tuple[Tensor, Tensor, str]:
    """Plain and scored log-probabilities of continuations."""
    has_start = (loaded.tokenizer.bos_token_id, loaded.tokenizer.eos_token_id) != (None, None)
    engine = Engine(loaded, "auto" if has_start else "unscored")
    requests = [
        Request("", TEXTS[3]),
        Request("The cat sat on the", " mat."),
        Request(TEXTS[2], " " + TEXTS[0]),
    ]
    plain = torch.cat([_plain(loaded, list(s.ids), s.start) for s in engine.encode(requests)])
    return plain, _scored(engine.score(requests)), "the scorer"


def _hidden_tokens(loaded: LoadedModel) -> tuple[Tensor, Tensor, str]:
    """Plain and scored log-probabilities of each token of two short texts, hidden in turn (Salazar et al. 2020)."""
    if loaded.tokenizer.mask_token_id is None:
        raise NotApplicable("the tokenizer names no mask token")
    engine, texts = MaskedEngine(loaded), [TEXTS[3], TEXTS[0]]
    rows = [row for text in engine.encode(texts) for row in engine.rows(text)]
    logits = torch.stack([real_outputs(loaded, padded(loaded, [list(r.ids)]))[r.position] for r in rows])
    plain = _of_targets(logits, [row.target for row in rows])
    return plain, _scored(engine.score(texts)), "pseudo-log-likelihood"


def _targets(loaded: LoadedModel) -> tuple[Tensor, Tensor, str]:
    """Plain and scored log-probabilities of targets behind their sources."""
    engine = Seq2SeqEngine(loaded)
    requests = [Request(TEXTS[0], TEXTS[3]), Request(TEXTS[3], TEXTS[0]), Request(TEXTS[2], TEXTS[3])]
    parts = []
    for pair in engine.encode(requests):
        batch = replace(
            padded(loaded, [list(pair.source)]), decoder_ids=torch.tensor([pair.read], device=loaded.device)
        )
        logits = real_outputs(loaded, batch)[len(pair.prefix) - 1 :]
        parts.append(_of_targets(logits, list(pair.target)))
    return torch.cat(parts), _scored(engine.score(requests)), "scores of targets"


def _scored(scores: Sequence[Score]) -> Tensor:
    return torch.tensor([p for score in scores for p in score.token_log_probabilities])


def _plain(loaded: LoadedModel, ids: list[int], start: int) -> Tensor:
    """Log-probabilities (nats) of ``ids[start:]``, each given all ids before it."""
    logits = real_outputs(loaded, padded(loaded, [ids[:-1]]))
    return _of_targets(logits[start - 1 :], ids[start:])


def _of_targets(logits: Tensor, targets: list[int]) -> Tensor:
    """Log-probability (nats) of each target (N) under its row of logits (N, V)."""
    wanted = torch.tensor(targets, device=logits.device)
    return logits.double().log_softmax(-1).gather(1, wanted[:, None])[:, 0].float().cpu()
