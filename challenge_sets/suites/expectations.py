"""What a test expects of predictions: each expectation gives a margin, negative where the case fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from challenge_sets._records import TestCase
from workbench.choices import as_members

__all__ = [
    "Change",
    "CheckListInvariant",
    "Custom",
    "EqualLabel",
    "Expectation",
    "Invariant",
    "Monotonic",
    "NotLabel",
    "Prediction",
    "Shift",
    "TestKind",
    "VariantLabel",
]


_TIE_MARGIN = 1e-9


class TestKind(StrEnum):
    """Minimum functionality, invariance, or directional expectation (Ribeiro et al. 2020, section 2.2)."""

    __test__ = False  # pytest: not a test class

    MFT = "MFT"
    INV = "INV"
    DIR = "DIR"


@dataclass(frozen=True)
class Prediction:
    """The label given to one example, and the probability of each label.

    ``truncated`` tokens of the example did not fit into the model.
    """

    label: str
    probabilities: Mapping[str, float]
    truncated: int = 0

    def of(self, label: str) -> float:
        """Probability of ``label``; 0 for one that the model does not have."""
        return self.probabilities.get(label, 0.0)


class Expectation(Protocol):
    """Judges the predictions for one case's examples, the original first.

    ``judge`` gives a margin: 0 or more if the case passes, less if it fails (the lower, the worse), and
    ``None`` where the test does not apply to the case.
    """

    def judge(self, case: TestCase, predictions: Sequence[Prediction]) -> float | None:
        """The margin."""


@dataclass(frozen=True)
class EqualLabel:
    """Every example gets the label that it has; the margin is that to the most probable other label.

    An example whose label is ``loose`` may get any label but ``forbidden`` (CheckList's "Q & A: no").
    """

    loose: str | None = None
    forbidden: str | None = None

    def judge(self, case: TestCase, predictions: Sequence[Prediction]) -> float | None:
        """See :class:`Expectation`."""
        judged = [(p, label) for p, label in zip(predictions, case.labels, strict=True) if label is not None]
        return min((self._one(p, label) for p, label in judged), default=None)

    def _one(self, prediction: Prediction, label: str) -> float:
        if self.forbidden is not None and label == self.loose:
            return -_lead(prediction, self.forbidden)
        return _lead(prediction, label)


def _lead(prediction: Prediction, label: str) -> float:
    """By how much ``label`` leads; never 0, so that a tie still says who got it."""
    others = [value for name, value in prediction.probabilities.items() if name != label]
    lead = prediction.of(label) - max(others, default=0.0)
    return max(lead, _TIE_MARGIN) if prediction.label == label else min(lead, -_TIE_MARGIN)


@dataclass(frozen=True)
class NotLabel:
    """No example gets the label that is named for it."""

    def judge(self, case: TestCase, predictions: Sequence[Prediction]) -> float | None:
        """See :class:`Expectation`."""
        judged = [(p, label) for p, label in zip(predictions, case.labels, strict=True) if label is not None]
        return min((-_lead(p, label) for p, label in judged), default=None)


@dataclass(frozen=True)
class Invariant:
    """The label stays, and no label's probability moves by more than ``tolerance``.

    Stricter than CheckList's own rule, which is :class:`CheckListInvariant`.
    """

    tolerance: float = 1.0

    def judge(self, case: TestCase, predictions: Sequence[Prediction]) -> float | None:
        """See :class:`Expectation`; cases without variants do not apply."""
        first, *variants = predictions
        return min((self._one(first, other) for other in variants), default=None)

    def _one(self, first: Prediction, other: Prediction) -> float:
        moved = max(
            abs(other.of(label) - first.of(label)) for label in {*first.probabilities, *other.probabilities}
        )
        return -max(moved, _TIE_MARGIN) if other.label != first.label else self.tolerance - moved


@dataclass(frozen=True)
class CheckListInvariant:
    """``Expect.inv(tolerance)`` of Ribeiro et al. (2020): an equal label passes, whatever the probabilities do.

    Another label passes too if the probability of the original's label moved by no more than ``tolerance``.
    """

    tolerance: float = 0.1

    def judge(self, case: TestCase, predictions: Sequence[Prediction]) -> float | None:
        """See :class:`Expectation`; cases without variants do not apply."""
        first, *variants = predictions
        return min((self._one(first, other) for other in variants), default=None)

    def _one(self, first: Prediction, other: Prediction) -> float:
        left = self.tolerance - abs(other.of(first.label) - first.of(first.label))
        return max(left, 0.0) if other.label == first.label else left


class Change(StrEnum):
    """The direction of a monotonic expectation."""

    UP = "up"
    DOWN = "down"


@dataclass(frozen=True)
class Monotonic:
    """The probability of ``label`` moves ``change``, or at least not the other way by more than ``tolerance``.

    With ``label`` None it is the label that the original got. Cases that cannot fail, since the probability is within
    ``tolerance`` of the end that it must not move to, do not apply (``Expect.monotonic`` of Ribeiro et al. 2020), nor
    do those whose original got the label ``apart_from``.
    """

    label: str | None
    change: Change
    tolerance: float = 0.0
    apart_from: str | None = None

    def __post_init__(self) -> None:
        as_members(self)

    def judge(self, case: TestCase, predictions: Sequence[Prediction]) -> float | None:
        """See :class:`Expectation`; cases without variants do not apply."""
        first, *variants = predictions
        label = first.label if self.label is None else self.label
        room = first.of(label) if self.change is Change.UP else 1.0 - first.of(label)
        if first.label == self.apart_from or room <= self.tolerance:
            return None
        sign = 1.0 if self.change is Change.UP else -1.0
        return min((sign * (v.of(label) - first.of(label)) + self.tolerance for v in variants), default=None)


@dataclass(frozen=True)
class Shift:
    """The probability of ``towards`` minus that of ``away`` falls by no more than ``tolerance``.

    The rule of CheckList's "add positive phrases" and, with the labels exchanged, "add negative phrases".
    """

    towards: str
    away: str
    tolerance: float = 0.0

    def judge(self, case: TestCase, predictions: Sequence[Prediction]) -> float | None:
        """See :class:`Expectation`; cases without variants do not apply."""
        first, *variants = predictions
        changes = [
            v.of(self.towards) - first.of(self.towards) + first.of(self.away) - v.of(self.away)
            for v in variants
        ]
        return min((change + self.tolerance for change in changes), default=None)


@dataclass(frozen=True)
class VariantLabel:
    """Every variant gets ``label``; applies where the original got ``original`` (any label for ``None``)."""

    label: str
    original: str | None = None

    def judge(self, case: TestCase, predictions: Sequence[Prediction]) -> float | None:
        """See :class:`Expectation`; cases without variants do not apply."""
        first, *variants = predictions
        if self.original is not None and first.label != self.original:
            return None
        return min((_lead(v, self.label) for v in variants), default=None)


@dataclass(frozen=True)
class Custom:
    """A function of your own: ``True`` passes, ``False`` fails, ``None`` does not apply."""

    function: Callable[[TestCase, Sequence[Prediction]], bool | None]

    def judge(self, case: TestCase, predictions: Sequence[Prediction]) -> float | None:
        """See :class:`Expectation`."""
        answer = self.function(case, predictions)
        return None if answer is None else (0.0 if answer else -1.0)
