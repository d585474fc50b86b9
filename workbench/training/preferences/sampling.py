"""Replies that a model draws, and how far the model is from its reference on them, by the engine of scores.

Axes: B reply, T token of a reply.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from workbench.models import LoadedModel
from workbench.models.batching import HeadRow, padded, padding_id
from workbench.scoring import Engine
from workbench.scoring import Sequence as Scored
from workbench.trace.decoder import end_ids
from workbench.trace.padding import cache_works, together
from workbench.training.preferences.kl import KLEstimator, kl_of_replies

__all__ = ["measured_kl", "sample_replies"]

_ROWS = 64  # prompts of a pass


def sample_replies(
    model: LoadedModel,
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int,
    *,
    seed: int = 0,
    temperature: float = 1.0,
) -> list[list[int]]:
    """Ids of a reply to each prompt, drawn from the whole distribution; one that ends has its end token.

    The same seed gives the same replies; random numbers elsewhere stay as they were.
    """
    found: dict[int, list[int]] = {}
    devices = [model.device] if model.device.type == "cuda" else []
    with model.lock, torch.inference_mode(), torch.random.fork_rng(devices):
        torch.manual_seed(seed)
        for alike in together(model.model, [len(ids) for ids in prompts], "left"):
            for start in range(0, len(alike), _ROWS):
                places = alike[start : start + _ROWS]
                drawn = _drawn(model, [prompts[i] for i in places], max_new_tokens, temperature)
                found.update(zip(places, drawn, strict=True))
    return [found[i] for i in range(len(prompts))]


def _drawn(
    model: LoadedModel, prompts: Sequence[Sequence[int]], max_new_tokens: int, temperature: float
) -> list[list[int]]:
    inputs = padded(model, [HeadRow(tuple(ids)) for ids in prompts], "left")
    ends = sorted(end_ids(model))
    rows = model.model.generate(
        **inputs,
        max_new_tokens=max_new_tokens,
        do_sample=True,
        temperature=temperature,
        top_p=1.0,
        top_k=0,
        num_beams=1,
        use_cache=cache_works(model.model),
        eos_token_id=ends or None,
        pad_token_id=padding_id(model.tokenizer, model.config),
    )
    return [_ended(row, ends) for row in rows[:, inputs["input_ids"].shape[1] :].tolist()]


def _ended(ids: list[int], ends: Sequence[int]) -> list[int]:
    """Up to the first end token, which belongs to the reply."""
    place = next((i for i, token in enumerate(ids) if token in ends), len(ids))
    return ids[: place + 1]


def measured_kl(
    policy: LoadedModel,
    reference: LoadedModel,
    prompts: Sequence[Sequence[int]],
    replies: Sequence[Sequence[int]],
) -> dict[KLEstimator, list[float]]:
    """For each reply that ``policy`` drew at temperature 1, both unbiased estimates of KL to ``reference``, in nats."""
    rows = [Scored((*prompt, *reply), len(prompt)) for prompt, reply in zip(prompts, replies, strict=True)]
    mine, theirs = (
        [score.token_log_probabilities for score in Engine(model).score_sequences(rows)]
        for model in (policy, reference)
    )
    mask = torch.zeros(len(rows), max(map(len, replies)), dtype=torch.float64)
    logs = torch.zeros(2, *mask.shape, dtype=torch.float64)
    for n, (a, b) in enumerate(zip(mine, theirs, strict=True)):
        mask[n, : len(a)] = 1
        logs[0, n, : len(a)], logs[1, n, : len(b)] = torch.tensor(a).double(), torch.tensor(b).double()
    return {
        name: kl_of_replies(logs[0], logs[1], mask, name).tolist()
        for name in (KLEstimator.K1, KLEstimator.K3)
    }
