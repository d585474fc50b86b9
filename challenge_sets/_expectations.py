"""What a test expects of predictions: each expectation gives a margin, negative where the case fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from challenge_sets._records import TestCase

__all__ = [
    "Change",
    "Custom",
    "EqualLabel",
    "Expectation",
    "Invariant",
    "Monotonic",
    "NotLabel",
    "Prediction",
    "TestKind",
]


_TIE = 1e-9


class TestKind(StrEnum):
    """Minimum functionality, invariance, or directional expectation (Ribeiro et al. 2020, section 2.2)."""

    __test__ = False  # pytest: not a test class

    MFT = "MFT"
    INV = "INV"
    DIR = "DIR"


@dataclass(frozen=True)
class Prediction:
    """The label given to one example, and the probability of each label."""

    label: str
    probabilities: Mapping[str, float]

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
    """Every example gets the label that it has; the margin is that to the most probable other label."""

    def judge(self, case: TestCase, predictions: Sequence[Prediction]) -> float | None:
        """See :class:`Expectation`."""
        judged = [(p, label) for p, label in zip(predictions, case.labels, strict=True) if label is not None]
        return min((_lead(p, label) for p, label in judged), default=None)


def _lead(prediction: Prediction, label: str) -> float:
    """By how much ``label`` leads; never 0, so that a tie still says who got it."""
    others = [value for name, value in prediction.probabilities.items() if name != label]
    lead = prediction.of(label) - max(others, default=0.0)
    return max(lead, _TIE) if prediction.label == label else min(lead, -_TIE)


@dataclass(frozen=True)
class NotLabel:
    """No example gets the label that is named for it."""

    def judge(self, case: TestCase, predictions: Sequence[Prediction]) -> float | None:
        """See :class:`Expectation`."""
        judged = [(p, label) for p, label in zip(predictions, case.labels, strict=True) if label is not None]
        return min((-_lead(p, label) for p, label in judged), default=None)


@dataclass(frozen=True)
class Invariant:
    """The label stays, and no label's probability moves by more than ``tolerance``."""

    tolerance: float = 1.0

    def judge(self, case: TestCase, predictions: Sequence[Prediction]) -> float | None:
        """See :class:`Expectation`; cases without variants do not apply."""
        first, *variants = predictions
        return min((self._one(first, other) for other in variants), default=None)

    def _one(self, first: Prediction, other: Prediction) -> float:
        moved = max(
            abs(other.of(label) - first.of(label)) for label in {*first.probabilities, *other.probabilities}
        )
        return -max(moved, _TIE) if other.label != first.label else self.tolerance - moved


class Change(StrEnum):
    """The direction of a monotonic expectation."""

    UP = "up"
    DOWN = "down"


@dataclass(frozen=True)
class Monotonic:
    """The probability of ``label`` moves ``change``, or at least not the other way by more than ``tolerance``.

    With ``label`` None it is the label that the original got.
    """

    label: str | None
    change: Change
    tolerance: float = 0.0

    def judge(self, case: TestCase, predictions: Sequence[Prediction]) -> float | None:
        """See :class:`Expectation`; cases without variants do not apply."""
        first, *variants = predictions
        label = first.label if self.label is None else self.label
        sign = 1.0 if self.change is Change.UP else -1.0
        return min((sign * (v.of(label) - first.of(label)) + self.tolerance for v in variants), default=None)


@dataclass(frozen=True)
class Custom:
    """A function of your own: ``True`` passes, ``False`` fails, ``None`` does not apply."""

    function: Callable[[TestCase, Sequence[Prediction]], bool | None]

    def judge(self, case: TestCase, predictions: Sequence[Prediction]) -> float | None:
        """See :class:`Expectation`."""
        answer = self.function(case, predictions)
        return None if answer is None else (0.0 if answer else -1.0)
