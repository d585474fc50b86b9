"""What patching measures: a number read off the logits of one place."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import torch
from jaxtyping import Float
from torch import Tensor

from workbench.analysis.lens import TargetToken, different_targets, target_token
from workbench.choices import as_members, member
from workbench.errors import DataError
from workbench.models import Kind, LoadedModel

__all__ = ["MetricKind", "PatchingMetric", "make_metric"]


class MetricKind(StrEnum):
    """Names of the metrics."""

    LOGIT_DIFFERENCE = "logit_difference"  # of target and contrast; the target's logit without a contrast
    PROBABILITY = "probability"  # of the target
    LOG_PROBABILITY = "log_probability"  # of the target, in nats


@dataclass(frozen=True)
class PatchingMetric:
    """A metric with its target, and what it is compared with. Logits (N, V) to numbers (N,)."""

    kind: MetricKind
    target: TargetToken
    contrast: TargetToken | None = None

    def __post_init__(self) -> None:
        as_members(self)

    def __call__(self, logits: Float[Tensor, "N V"]) -> Float[Tensor, " N"]:
        """The metric of each row."""
        scores = logits.to(torch.promote_types(logits.dtype, torch.float32))
        if self.kind is MetricKind.LOGIT_DIFFERENCE:
            wanted = scores[:, self.target.id]
            return wanted if self.contrast is None else wanted - scores[:, self.contrast.id]
        found = scores.log_softmax(-1)[:, self.target.id]
        return found.exp() if self.kind is MetricKind.PROBABILITY else found

    @property
    def about(self) -> str:
        """Name and targets in words."""
        name = self.kind.value.replace("_", " ")
        if self.kind is MetricKind.LOGIT_DIFFERENCE and self.contrast is not None:
            return f"{name} {self.target.text!r} - {self.contrast.text!r}"
        return f"{'logit' if self.kind is MetricKind.LOGIT_DIFFERENCE else name} of {self.target.text!r}"

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader must know about targets of several pieces."""
        return tuple(t.note for t in (self.target, self.contrast) if t is not None and t.note)


def make_metric(
    model: LoadedModel, target: str, contrast: str | None = None, kind: str | None = None
) -> PatchingMetric:
    """The metric of words (or, of a classifier, of label names or numbers).

    By default the logit difference where there is a contrast, else the probability. Raises
    :class:`~workbench.errors.DataError` for a target that is not in the vocabulary or no label.
    """
    name = kind or (MetricKind.PROBABILITY if contrast is None else MetricKind.LOGIT_DIFFERENCE)
    chosen = member(MetricKind, name, "metric", DataError)
    find = _label if model.kind is Kind.CLASSIFIER else target_token
    wanted = find(model, target)
    other = None if contrast is None else find(model, contrast)
    different_targets(wanted, other)
    return PatchingMetric(chosen, wanted, other)


def _label(model: LoadedModel, text: str) -> TargetToken:
    names = {int(number): str(name) for number, name in model.config.id2label.items()}
    for number, name in names.items():
        if text in (name, str(number)):
            return TargetToken(text, number, name)
    raise DataError(f"{model.name} has no label {text!r}; its labels are {', '.join(names.values())}")
