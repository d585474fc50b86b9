"""CheckList's exported suites as suites of ours."""

from __future__ import annotations

from pathlib import Path

from challenge_sets._expectations import (
    Change,
    EqualLabel,
    Expectation,
    Invariant,
    Monotonic,
    NotLabel,
    TestKind,
)
from challenge_sets._records import TestCase
from challenge_sets._suite import Suite
from challenge_sets._tests import Prompt, Test
from challenge_sets.readers import checklist
from workbench.errors import DataError

__all__ = ["PARAPHRASE_PROMPT", "SENTIMENT_PROMPT", "read_checklist_suite"]

_SENTIMENT = {"0": "negative", "1": "neutral", "2": "positive"}
_PARAPHRASE = {"0": "different", "1": "duplicate"}
SENTIMENT_PROMPT = Prompt("{0} It was", {"negative": " terrible", "neutral": " okay", "positive": " great"})
PARAPHRASE_PROMPT = Prompt(
    "Question 1: {0}\nQuestion 2: {1}\nDo the two questions ask the same thing?",
    {"different": " No", "duplicate": " Yes"},
)
# An export holds the cases of a directional test, not its function: these are the published tests' own rules.
_DIRECTIONS: dict[str, Expectation] = {
    "intensifiers": Monotonic(None, Change.UP, 0.1),
    "reducers": Monotonic(None, Change.DOWN, 0.1),
    "add positive phrases": Monotonic("negative", Change.DOWN, 0.1),
    "add negative phrases": Monotonic("positive", Change.DOWN, 0.1),
    '"used to" should reduce': Monotonic(None, Change.DOWN, 0.1),
}
_NOT_NEGATIVE = ("not negative", "neutral or positive", "positive or neutral")


def read_checklist_suite(path: Path) -> Suite:
    """An exported suite; sentiment (labels 0, 1, 2) and paraphrase (pairs, labels 0, 1) are told apart by content.

    Directional tests whose function the export lacks and whose name is not known are left out, and so are
    minimum functionality tests without label; raises :class:`~workbench.errors.DataError` if none is left.
    """
    exported = list(checklist.read(path))
    pairs = max(len(e) for test in exported for case in test.cases for e in case.examples) > 1
    labels, prompt = (_PARAPHRASE, PARAPHRASE_PROMPT) if pairs else (_SENTIMENT, SENTIMENT_PROMPT)
    tests = [test for number, one in enumerate(exported) if (test := _test(one, number, labels)) is not None]
    if not tests:
        raise DataError(f"{path}: no test that can be run: they lack labels and known expectations")
    return Suite(
        name=path.stem,
        labels={name: (digit, f"LABEL_{digit}") for digit, name in labels.items()},
        tests=tuple(tests),
        prompt=prompt,
        description=f"CheckList suite exported in {path.name}; {len(exported) - len(tests)} tests left out",
    )


def _test(exported: checklist.CheckListTest, number: int, labels: dict[str, str]) -> Test | None:
    expectation = _expectation(exported)
    if expectation is None:
        return None
    forbidden = "negative" if isinstance(expectation, NotLabel) else None
    cases = tuple(
        TestCase(
            f"{number}#{index}",
            f"{exported.name}#{index}",  # the export does not tell templates: cases stand alone
            case.examples,
            (forbidden or labels.get(str(case.label)),) * len(case.examples),
        )
        for index, case in enumerate(exported.cases)
    )
    return Test(
        name=exported.name,
        capability=exported.capability,
        kind=TestKind(exported.kind),
        cases=cases,
        expectation=expectation,
        description=exported.description,
    )


def _expectation(exported: checklist.CheckListTest) -> Expectation | None:
    if exported.kind == "INV":
        return Invariant(0.1)
    if exported.kind == "DIR":
        return _DIRECTIONS.get(exported.name)
    if any(case.label is not None for case in exported.cases):
        return EqualLabel()
    return NotLabel() if any(words in exported.name for words in _NOT_NEGATIVE) else None
