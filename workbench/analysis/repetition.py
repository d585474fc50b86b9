"""Heads that look back at repetitions: induction and duplicate-token scores on repeated random tokens."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from workbench.analysis._ratio import RatioSums
from workbench.errors import DataError
from workbench.models import Kind, LoadedModel
from workbench.statistics import Statistic
from workbench.trace import AttentionCall, AttentionObserver, Stack, observe_attention, structure_of
from workbench.trace.structure import call_model

__all__ = ["repetition_scores"]

_NOTES = {
    "induction": "weight on the token that followed the earlier copy of the query",
    "duplicate token": "weight on the earlier copy of the query",
    "previous token": "weight on the token before the query",
}


def repetition_scores(
    model: LoadedModel, *, length: int = 50, sequences: int = 16, seed: int = 0
) -> dict[str, Statistic]:
    """Scores of every head of a decoder by name: "induction", "duplicate token" and "previous token".

    Each sequence is ``length`` random tokens followed by the same tokens again, behind a BOS where the
    tokenizer has one. Scores are mean weights over the queries of the second copy (Olsson et al. 2022,
    "prefix matching score"; Wang et al. 2023, appendix on duplicate-token heads); errors are between
    sequences. Random tokens leave no other way to predict the second copy.

    Raises :class:`ModelError` for models that do not read from left to right, :class:`DataError` if two copies
    are too long for the model or there are fewer than two sequences.
    """
    model.require(Kind.CAUSAL, verb="repetition_scores")
    if length < 2 or sequences < 2 or 2 * length + 1 > model.max_length:
        raise DataError(
            f"length {length} and {sequences} sequences: length is 2 to {(model.max_length - 1) // 2} for this "
            "model, and there are at least 2 sequences"
        )
    structure = structure_of(model.model)
    observer = _Repetition(structure.main, structure.layers[structure.main], length)
    with observe_attention(model, observer):
        for ids in _random_tokens(model, length, sequences, seed).split(4):
            call_model(model.model.base_model, input_ids=ids, attention_mask=torch.ones_like(ids))
    return {
        name: Statistic(
            name=f"{name} score",
            unit="mass",
            values=np.stack([sums.values[:, i] for sums in observer.sums]),
            axes=("layer", "head"),
            standard_error=np.stack([sums.standard_errors[:, i] for sums in observer.sums]),
            note=f"{note}; {sequences} sequences of {length} random tokens twice, seed {seed}",
        )
        for i, (name, note) in enumerate(_NOTES.items())
    }


def _random_tokens(model: LoadedModel, length: int, sequences: int, seed: int) -> Tensor:
    """(sequence, token) ids: BOS where there is one, and the same random ordinary tokens twice."""
    special = set(model.tokenizer.all_special_ids)
    size = min(len(model.tokenizer), model.config.get_text_config().vocab_size)
    ordinary = np.array([i for i in range(size) if i not in special])
    once = np.random.default_rng(seed).choice(ordinary, (sequences, length))
    bos = model.tokenizer.bos_token_id
    start = np.full((sequences, 0 if bos is None else 1), bos or 0)
    return torch.tensor(np.concatenate([start, once, once], axis=1), device=model.device)


class _Repetition(AttentionObserver):
    """Sums, for each layer, of the weights on three diagonals below the second copy's queries."""

    def __init__(self, stack: Stack, layers: int, length: int) -> None:
        super().__init__(stack)
        self.length = length
        self.sums = [RatioSums() for _ in range(layers)]

    def observe(self, call: AttentionCall) -> None:
        """Add one layer of the batch."""
        second = call.weights[:, :, -self.length :].double()  # (B, H, length, T); T ends with the two copies
        first_query = call.weights.shape[-1] - self.length
        offsets: Mapping[str, int] = {
            "induction": -self.length + 1,
            "duplicate token": -self.length,
            "previous token": -1,
        }
        totals = [second.diagonal(first_query + offset, 2, 3).sum(-1) for offset in offsets.values()]
        self.sums[call.layer].add(torch.stack(totals, -1).cpu().numpy(), np.array(float(self.length)))
