"""Which score gradients are taken of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.errors import ModelError, TraceError
from workbench.models import Kind, LoadedModel
from workbench.text import Alignment

__all__ = ["Target", "check_target", "target_score"]


@dataclass(frozen=True)
class Target:
    """The score whose gradient is taken: the log-probability (natural log) of ``token`` at ``position``.

    ``token`` is a vocabulary id, or a class number for a classifier; by default the likeliest.
    ``position`` counts in the text's own tokens, from the end where negative; by default the last one, or
    the first mask token for a masked model. A causal model's position predicts the token after it.
    """

    token: int | None = None
    position: int | None = None


def check_target(model: LoadedModel, target: Target | None) -> None:
    """Raise :class:`ModelError` if the model has no head, :class:`TraceError` if the token is out of range."""
    if model.kind is Kind.ENCODER:
        raise ModelError(f"{model.name} is an encoder without a head: there is no score to take gradients of")
    size = (
        model.config.num_labels
        if model.kind is Kind.CLASSIFIER
        else model.config.get_text_config().vocab_size
    )
    if target is not None and target.token is not None and not 0 <= target.token < size:
        raise TraceError(f"target token {target.token} is out of range: 0 to {size - 1}")


def target_score(
    model: LoadedModel, logits: Tensor, alignments: Sequence[Alignment], target: Target | None
) -> Tensor:
    """Sum over the batch of each text's target score; logits are (B, T, V), or (B, C) of a classifier."""
    chosen = target or Target()
    rows = []
    for row, alignment in enumerate(alignments):
        scores = logits[row] if logits.ndim == 2 else logits[row, _position(model, alignment, chosen)]
        token = int(scores.argmax()) if chosen.token is None else chosen.token
        rows.append(torch.log_softmax(scores.float(), dim=-1)[token])
    return torch.stack(rows).sum()


def _position(model: LoadedModel, alignment: Alignment, target: Target) -> int:
    position = target.position
    if position is None:
        mask = model.mask_id if model.kind is Kind.MASKED else None
        position = alignment.ids.index(mask) if mask in alignment.ids else -1
    if not -len(alignment) <= position < len(alignment):
        raise TraceError(f"target position {position} is out of range: the text has {len(alignment)} tokens")
    return position % len(alignment)
