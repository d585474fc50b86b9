"""Probabilities sum to one, and the scorer reports the model's own."""

from __future__ import annotations

import torch
from torch import Tensor

from workbench.evaluate.doctor._compare import agree, judge
from workbench.evaluate.doctor._records import Finding, NotApplicable
from workbench.evaluate.doctor._subject import TEXTS, padded, real_outputs, sample_sequences
from workbench.models import Kind, LoadedModel
from workbench.models.problem import ProblemType, problem_of
from workbench.scoring import Engine, Request

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
    """The scoring engine's token log-probabilities are those of a plain log-softmax over all logits.

    The engine pads, batches and projects only where it scores; the reference does none of these.
    """
    if loaded.kind is not Kind.CAUSAL:
        raise NotApplicable(f"the scoring engine reads causal models; this one is of kind {loaded.kind}")
    has_start = (loaded.tokenizer.bos_token_id, loaded.tokenizer.eos_token_id) != (None, None)
    engine = Engine(loaded, "auto" if has_start else "unscored")
    requests = [
        Request("", TEXTS[3]),
        Request("The cat sat on the", " mat."),
        Request(TEXTS[2], " " + TEXTS[0]),
    ]
    scores = engine.score(requests)
    found = torch.tensor([p for score in scores for p in score.token_log_probabilities])
    plain = torch.cat([_plain(loaded, list(s.ids), s.start) for s in engine.encode(requests)])
    detail = f"the scorer against log-softmax of all logits, {len(plain)} tokens"
    return agree(plain, found, loaded.dtype, detail)


def _plain(loaded: LoadedModel, ids: list[int], start: int) -> Tensor:
    """Log-probabilities (nats) of ``ids[start:]``, each given all ids before it."""
    logits = real_outputs(loaded, padded(loaded, [ids[:-1]])).double()
    targets = torch.tensor(ids[1:], device=logits.device)
    log_probabilities = logits.log_softmax(-1).gather(1, targets[:, None])[:, 0]
    return log_probabilities[start - 1 :].float().cpu()
