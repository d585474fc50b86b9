"""The records of a suite: cases, tests, the prompt for language models, and the suite."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from challenge_sets._expectations import EqualLabel, Expectation, Invariant, TestKind
from workbench.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from workbench.models import LoadedModel
    from workbench.runs import Run

__all__ = ["DIR", "INV", "MFT", "Prompt", "Suite", "Test", "TestCase"]


@dataclass(frozen=True)
class TestCase:
    """Examples judged together: one for MFT; the original and its variants for INV and DIR.

    An example is one text, or several (question and passage). ``labels`` go with ``examples``; ``template``
    names what the case was made from: failure rates are clustered by it.
    """

    __test__ = False

    id: str
    template: str
    examples: tuple[tuple[str, ...], ...]
    labels: tuple[str | None, ...]
    metadata: Mapping[str, Any] = field(default_factory=dict)


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
class Prompt:
    """How a language model is asked: ``text`` with ``{0}``, ``{1}`` for an example's texts, and answers by label."""

    text: str
    answers: Mapping[str, str]

    def filled(self, example: tuple[str, ...]) -> str:
        """The prompt for one example."""
        result = self.text
        for index, text in enumerate(example):
            result = result.replace(f"{{{index}}}", text)
        return result


@dataclass(frozen=True, kw_only=True)
class Suite:
    """Tests of one task, its labels (with other names that models give them), and its prompt."""

    name: str
    labels: Mapping[str, tuple[str, ...]]
    tests: tuple[Test, ...]
    prompt: Prompt | None = None
    description: str = ""

    def __post_init__(self) -> None:
        names = [test.name for test in self.tests]
        repeated = {name for name in names if names.count(name) > 1}
        if repeated or not names:
            problem = f"has two tests called {min(repeated)!r}" if repeated else "has no test"
            raise ConfigError(f"suite {self.name!r} {problem}")
        for test in self.tests:
            self._check(test)

    def _check(self, test: Test) -> None:
        for case in test.cases:
            for label in case.labels:
                if label is not None and label not in self.labels:
                    raise ConfigError(
                        f"suite {self.name!r}, test {test.name!r}: label {label!r} is none of the suite's: "
                        f"{', '.join(self.labels)}"
                    )

    def run(self, model: LoadedModel, *, out: Path | None = None, limit_per_test: int | None = None) -> Run:
        """Run all tests and store the run; see :func:`challenge_sets.diagnostics.check`."""
        from challenge_sets._runner import check
        from challenge_sets._set import Settings
        from challenge_sets._suite_set import suite_set

        settings = Settings(set=self.name, limit_per_paradigm=limit_per_test)
        return check(model, suite_set((self,)), settings, out=out, doctor=False)
