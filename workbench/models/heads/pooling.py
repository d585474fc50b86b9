"""What a classifier of texts reads: one token's state, the mean, or the mean that attention weighs, once per aspect."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn
from transformers.modeling_outputs import Seq2SeqSequenceClassifierOutput, SequenceClassifierOutput

from workbench.nn import AttentionPooling, LabelwiseLinear, first_token, last_token, mean_of_tokens

__all__ = [
    "PooledClassifierOutput",
    "PooledSeq2SeqClassifierOutput",
    "fixed_pooling",
    "pooled_classifier",
]


@dataclass
class PooledClassifierOutput(SequenceClassifierOutput):
    """A classifier's output; ``pooling_weights`` (B, aspects, T), in rows that sum to one, where attention pools."""

    pooling_weights: Tensor | None = None


@dataclass
class PooledSeq2SeqClassifierOutput(Seq2SeqSequenceClassifierOutput):
    """The same of an encoder-decoder; the weights are of the tokens that the decoder reads."""

    pooling_weights: Tensor | None = None


_FIXED = {"first": first_token, "last": last_token, "mean": mean_of_tokens}


def fixed_pooling(kind: str, hidden: Tensor, mask: Tensor | None) -> Tensor:
    """One vector per text (B, D) of states (B, T, D), by ``kind``: "first", "last" or "mean"."""
    return _FIXED[kind](hidden, mask)


def pooled_classifier(
    width: int, labels: int, aspects: int | None, *, bias: bool = True
) -> tuple[AttentionPooling, nn.Module]:
    """Pooling by attention, and the layer that scores ``labels`` of its vectors (B, A, D): (B, labels).

    With ``aspects`` every label is scored on all of them side by side; with ``None`` each label has one of its own.
    """
    if aspects is None:
        return AttentionPooling(width, labels), LabelwiseLinear(width, labels, bias=bias)
    side_by_side = nn.Sequential(nn.Flatten(-2), nn.Linear(aspects * width, labels, bias=bias))
    return AttentionPooling(width, aspects), side_by_side
