"""CheckList's exported suites as suites of ours, each test judged by the rule that was published with it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from challenge_sets._records import TestCase
from challenge_sets.readers import checklist
from challenge_sets.suites.expectations import (
    Change,
    CheckListInvariant,
    EqualLabel,
    Expectation,
    Monotonic,
    NotLabel,
    Shift,
    TestKind,
    VariantLabel,
)
from challenge_sets.suites.tests import LeftOut, Suite, SuitePrompt, Test
from workbench.errors import DataError

__all__ = ["PARAPHRASE_PROMPT", "SENTIMENT_PROMPT", "read_checklist_suite"]

SENTIMENT_PROMPT = SuitePrompt(
    "{0} It was", {"negative": " terrible", "neutral": " okay", "positive": " great"}
)
PARAPHRASE_PROMPT = SuitePrompt(
    "Question 1: {0}\nQuestion 2: {1}\nDo the two questions ask the same thing?",
    {"different": " No", "duplicate": " Yes"},
)
_PROBABILITY_TOLERANCE = 0.1  # of INV tests that name none, and of all monotonic ones (Ribeiro et al. 2020)
# An export holds the cases of a test, not its function: these are the published tests' own rules, by name.
_RULES: dict[str, Expectation] = {
    "intensifiers": Monotonic(None, Change.UP, _PROBABILITY_TOLERANCE, apart_from="neutral"),
    "reducers": Monotonic(None, Change.DOWN, _PROBABILITY_TOLERANCE, apart_from="neutral"),
    '"used to" should reduce': Monotonic(None, Change.DOWN, _PROBABILITY_TOLERANCE, apart_from="neutral"),
    "add positive phrases": Shift("positive", "negative", _PROBABILITY_TOLERANCE),
    "add negative phrases": Shift("negative", "positive", _PROBABILITY_TOLERANCE),
    "Q & A: no": EqualLabel(loose="neutral", forbidden="negative"),
    "Change first name in one of the questions": VariantLabel("different", original="duplicate"),
    "Change first and last name in one of the questions": VariantLabel("different", original="duplicate"),
    "Change location in one of the questions": VariantLabel("different", original="duplicate"),
    "Change numbers in one of the questions": VariantLabel("different", original="duplicate"),
    "Keep entitites, fill in with gibberish": VariantLabel("different"),
}
# Tests without labels whose examples all have one label by the test's own rule.
_ONE_LABEL = {"(q, paraphrase(q))": "duplicate"}
_NOT_NEGATIVE = ("not negative", "neutral or positive", "positive or neutral")
_UNKNOWN = "the export lacks the test's expectation function, and its name is none of the published rules"
_UNLABELLED = "the export has neither labels nor a known expectation for this test"


class _Task(NamedTuple):
    """What a suite asks: texts of one example, names of the exported labels, and the prompt for language models."""

    name: str
    texts: int
    labels: dict[str, str]
    prompt: SuitePrompt


_TASKS = (
    _Task("sentiment", 1, {"0": "negative", "1": "neutral", "2": "positive"}, SENTIMENT_PROMPT),
    _Task("duplicate questions", 2, {"0": "different", "1": "duplicate"}, PARAPHRASE_PROMPT),
)


def read_checklist_suite(path: Path) -> Suite:
    """An exported suite of sentiment (labels 0, 1, 2) or duplicate questions (pairs, labels 0, 1).

    INV tests follow ``Expect.inv(0.1)``, directional tests the published rule of their name. Tests without labels or
    known rule are left out, and named with the reason. Raises :class:`~workbench.errors.DataError` for a suite of
    another task, naming a label or example that does not belong, and if no test is left.
    """
    exported = list(checklist.read(path))
    task = _task(path, exported)
    made = [_test(one, number, task) for number, one in enumerate(exported)]
    tests = tuple(test for test in made if isinstance(test, Test))
    if not tests:
        raise DataError(f"{path}: no test that can be run: they lack labels and known expectations")
    return Suite(
        name=path.stem,
        labels={name: (digit, f"LABEL_{digit}") for digit, name in task.labels.items()},
        tests=tests,
        prompt=task.prompt,
        description=f"CheckList suite on {task.name}, exported in {path.name}",
        left_out=tuple(test for test in made if isinstance(test, LeftOut)),
    )


def _task(path: Path, exported: list[checklist.CheckListTest]) -> _Task:
    """The task whose labels and examples these are."""
    sizes = [(test, len(e)) for test in exported for case in test.cases for e in case.examples]
    if not sizes:
        raise DataError(f"{path} holds no test; an exported suite has one a line")
    task = _TASKS[0] if sizes[0][1] == 1 else _TASKS[1]
    allowed = f"{task.name} has {task.texts} text{'s' if task.texts > 1 else ''} an example and the labels"
    known = f"{allowed} {', '.join(task.labels)}; suites of other tasks cannot be run"
    for test, count in sizes:
        if count != task.texts:
            raise DataError(f"{path}, test {test.name!r}: an example of {count} texts; {known}")
    for test in exported:
        for case in test.cases:
            if case.label is not None and str(case.label) not in task.labels:
                raise DataError(f"{path}, test {test.name!r}: unknown label {case.label!r:.60}; {known}")
    return task


def _test(exported: checklist.CheckListTest, number: int, task: _Task) -> Test | LeftOut:
    expectation = _expectation(exported)
    if expectation is None:
        return LeftOut(
            name=exported.name,
            capability=exported.capability,
            kind=TestKind(exported.kind),
            cases=len(exported.cases),
            reason=_UNLABELLED if exported.kind == "MFT" else _UNKNOWN,
            description=exported.description,
        )
    label = "negative" if isinstance(expectation, NotLabel) else _ONE_LABEL.get(exported.name)
    cases = tuple(
        TestCase(
            f"{number}#{index}",
            f"{exported.name}#{index}",  # the export does not name templates: cases stand alone
            case.examples,
            (label or task.labels.get(str(case.label)),) * len(case.examples),
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
    if exported.name in _RULES:
        return _RULES[exported.name]
    if exported.name in _ONE_LABEL:
        return EqualLabel()
    if exported.kind == "INV":
        return CheckListInvariant(_PROBABILITY_TOLERANCE)
    if exported.kind == "DIR":
        return None
    if any(case.label is not None for case in exported.cases):
        return EqualLabel()
    return NotLabel() if any(words in exported.name for words in _NOT_NEGATIVE) else None
