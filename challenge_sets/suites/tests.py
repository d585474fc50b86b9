"""The records of a suite: tests, the prompt for language models, and what holds them together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from challenge_sets._records import TestCase
from challenge_sets.suites.expectations import EqualLabel, Expectation, Invariant, TestKind
from workbench.choices import as_members
from workbench.errors import ConfigError

__all__ = ["DIR", "INV", "MFT", "REWRITING", "LeftOut", "Suite", "SuitePrompt", "Test"]

REWRITING = "Equivalent rewrites"  # the capability of tests that are rules


@dataclass(frozen=True, kw_only=True)
class Test:
    """Cases and what is expected of the predictions for them.

    ``budget`` is the failure rate up to which a release passes; ``kind`` is MFT, INV or DIR.
    """

    __test__ = False

    name: str
    capability: str
    kind: TestKind
    cases: tuple[TestCase, ...]
    expectation: Expectation
    description: str = ""
    budget: float | None = None

    def __post_init__(self) -> None:
        as_members(self)


def MFT(name: str, capability: str, cases: tuple[TestCase, ...], description: str = "") -> Test:
    """A minimum functionality test: every example gets its label."""
    return Test(
        name=name,
        capability=capability,
        kind=TestKind.MFT,
        cases=cases,
        expectation=EqualLabel(),
        description=description,
    )


def INV(
    name: str, capability: str, cases: tuple[TestCase, ...], tolerance: float = 1.0, description: str = ""
) -> Test:
    """An invariance test: variants get the label of the original, within ``tolerance`` on each probability."""
    return Test(
        name=name,
        capability=capability,
        kind=TestKind.INV,
        cases=cases,
        expectation=Invariant(tolerance),
        description=description,
    )


def DIR(
    name: str, capability: str, cases: tuple[TestCase, ...], expectation: Expectation, description: str = ""
) -> Test:
    """A directional test: the prediction moves as ``expectation`` says."""
    return Test(
        name=name,
        capability=capability,
        kind=TestKind.DIR,
        cases=cases,
        expectation=expectation,
        description=description,
    )


@dataclass(frozen=True)
class SuitePrompt:
    """The prompt for language models: ``text`` with ``{0}``, ``{1}`` for an example's texts, and answers by label."""

    text: str
    answers: Mapping[str, str]

    def filled(self, example: tuple[str, ...]) -> str:
        """The prompt for one example."""
        slot = re.compile(r"\{(\d+)\}")
        return slot.sub(lambda match: _member(example, int(match[1]), match[0]), self.text)


def _member(example: tuple[str, ...], index: int, written: str) -> str:
    return example[index] if index < len(example) else written


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """A test that cannot be run, and why; ``cases`` counts what it would have had."""

    name: str
    capability: str
    kind: TestKind
    cases: int
    reason: str
    description: str = ""


@dataclass(frozen=True, kw_only=True)
class Suite:
    """Tests of one task, its labels (with other names that models give them), and its prompt.

    ``left_out`` are tests of a published suite that cannot be run: results name them with the reason.
    """

    __test__ = False

    name: str
    labels: Mapping[str, tuple[str, ...]]
    tests: tuple[Test, ...]
    prompt: SuitePrompt | None = None
    description: str = ""
    left_out: tuple[LeftOut, ...] = ()

    def __post_init__(self) -> None:
        names = [test.name for test in self.tests]
        ids = [case.id for test in self.tests for case in test.cases]
        if not names:
            raise ConfigError(f"suite {self.name!r} has no test")
        for what, values in (("tests called", names), ("cases with the id", ids)):
            if len(set(values)) < len(values):
                repeated = next(value for value, count in Counter(values).items() if count > 1)
                raise ConfigError(f"suite {self.name!r} has two {what} {repeated!r}")
        for test in self.tests:
            self._check(test)

    def _check(self, test: Test) -> None:
        if not test.cases:
            raise ConfigError(f"suite {self.name!r}, test {test.name!r} has no case")
        for case in test.cases:
            for label in case.labels:
                if label is not None and label not in self.labels:
                    raise ConfigError(
                        f"suite {self.name!r}, test {test.name!r}: label {label!r} is none of the suite's: "
                        f"{', '.join(self.labels)}"
                    )
