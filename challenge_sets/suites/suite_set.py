"""Suites as challenge sets: one row per case, failure rates per test, from a model or a prediction file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from challenge_sets._records import TestCase
from challenge_sets._set import CheckSettings, Results, Rows, Work, within_limits
from challenge_sets.suites.expectations import Prediction
from challenge_sets.suites.predict import Example, PredictionFile, Predictor, predictor_for
from challenge_sets.suites.tests import LeftOut, Test, Tests
from workbench.data import DataIdentity, Dataset, content_hash
from workbench.errors import ConfigError, TaskError
from workbench.models import Kind, LoadedModel
from workbench.runs import write_atomically
from workbench.statistics import clustered_wilson

__all__ = ["SuiteCase", "SuiteSet", "counted", "export_texts", "suite_set"]

_CASES_PER_CHUNK = 64
_NOT_THIS_CASE = (
    "the test does not apply to what the model answers for the original, or the case has no variant"
)
_NONE_APPLIED = "no case of the test applied"
_NOT_ASKED = "no case was within the limit"


class SuiteCase(NamedTuple):
    """A case with the test and the suite it belongs to."""

    suite: Tests
    test: Test
    case: TestCase

    @property
    def id(self) -> str:
        """Suite and case."""
        return f"{self.suite.name}/{self.case.id}"

    @property
    def group(self) -> str:
        """Suite, capability and test: the name of the results."""
        return f"{self.suite.name}/{self.test.capability}/{self.test.name}"

    def examples(self) -> list[Example]:
        """Its examples under the ids of prediction files."""
        return [Example(f"{self.id}/{i}", texts) for i, texts in enumerate(self.case.examples)]


@dataclass(frozen=True)
class SuiteSet:
    """One suite or several, which ``read`` makes from the settings.

    The failure rate of a test counts its cases that applied; a case fails if any of its examples does.
    Intervals are Wilson's, clustered by template.
    """

    name: str
    about: str
    read: Callable[[CheckSettings], tuple[Tests, ...]]
    version: int = 2
    kinds: tuple[Kind, ...] = (Kind.CLASSIFIER, Kind.CAUSAL, Kind.MASKED, Kind.SEQ2SEQ)

    def load(self, settings: CheckSettings) -> Dataset[SuiteCase]:
        """All cases within the limits (``limit_per_paradigm`` by test)."""
        suites = self.read(settings)
        asked = [SuiteCase(s, test, case) for s in suites for test in s.tests for case in test.cases]
        kept = within_limits(asked, lambda item: item.group, settings)
        texts = (text for item in kept for example in item.case.examples for text in example)
        return Dataset(tuple(kept), DataIdentity(self.name, "suite", content_hash(texts), len(kept)))

    def policy(self, model: LoadedModel | PredictionFile, settings: CheckSettings) -> str:
        """How labels come about; raises :class:`~workbench.errors.TaskError` if no suite can be asked."""
        found = [self._predictor_or_reason(model, suite) for suite in self.read(settings)]
        policies = [one.policy for one in found if not isinstance(one, TaskError)]
        if not policies:
            raise next(one for one in found if isinstance(one, TaskError))
        return "; ".join(dict.fromkeys(policies))

    def _predictor_or_reason(
        self, model: LoadedModel | PredictionFile, suite: Tests, work: Work | None = None
    ) -> Predictor | TaskError:
        """The predictor, or why this model cannot be asked: of several suites the others go on."""
        try:
            return self._predictor(model, suite, work)
        except TaskError as error:
            return error

    def _predictor(
        self, model: LoadedModel | PredictionFile, suite: Tests, work: Work | None = None
    ) -> Predictor:
        if isinstance(model, PredictionFile):
            return model
        return predictor_for(model, suite, work.batch_tokens if work else "auto")

    def rows(self, model: LoadedModel | PredictionFile, work: Work) -> Rows:
        """Whether each case applied, whether it passed, by which margin, and what was predicted."""
        open_items = [item for place, item in enumerate(work.items) if place not in work.done]
        for suite, items in _by_suite(open_items):
            predictor = self._predictor_or_reason(model, suite, work)
            if isinstance(predictor, TaskError):
                yield [_unanswered(item, str(predictor)) for item in items]
                continue
            for start in range(0, len(items), _CASES_PER_CHUNK):
                yield _judged(predictor, items[start : start + _CASES_PER_CHUNK])

    def metrics(self, rows: pd.DataFrame) -> Results:
        """Failure rate of each test, over the cases that applied."""
        found: Results = {}
        for group, part in rows[rows["applied"].astype(bool)].groupby("group", sort=False):
            failed = [not passed for passed in part["correct"]]
            rate = clustered_wilson(failed, part["template"].tolist(), higher_is_better=False)
            found[str(group)] = {"failure_rate": rate}
        return found

    def notes(self, settings: CheckSettings) -> dict[str, Any]:
        """The tests, those left out too: kind, capability, description, failure budget, and a reason if not run."""
        tests = {}
        for suite in self.read(settings):
            for test in suite.tests:
                group = SuiteCase(suite, test, test.cases[0]).group
                tests[group] = {**_note(suite, test), "budget": test.budget, "cases": len(test.cases)}
            for left in suite.left_out:
                group = f"{suite.name}/{left.capability}/{left.name}"
                tests[group] = {**_note(suite, left), "budget": None, "cases": left.cases}
                tests[group] |= {"asked": 0, "applied": 0, "reason": left.reason}
        return {"tests": tests}


def _note(suite: Tests, test: Test | LeftOut) -> dict[str, Any]:
    return {
        "suite": suite.name,
        "capability": test.capability,
        "test": test.name,
        "kind": str(test.kind),
        "description": test.description,
    }


def counted(notes: dict[str, Any], rows: pd.DataFrame) -> dict[str, Any]:
    """The notes of a suite with what the rows add: cases asked and applied by test, truncated ones, one answer for all.

    A test of which no case applied gets the reason; notes of other sets stay as they are.
    """
    if "tests" not in notes:
        return notes
    tests = dict(notes["tests"])
    for group, part in rows.groupby("group", sort=False):
        applied = int(part["applied"].sum())
        reasons = [reason for reason in part["reason"].dropna().unique() if reason] or [_NONE_APPLIED]
        counts = {"asked": len(part), "applied": applied, "reason": "" if applied else reasons[0]}
        tests[str(group)] = {**tests[str(group)], **counts}
    for group, test in tests.items():
        tests[group] = {"asked": 0, "applied": 0, "reason": _NOT_ASKED, **test}
    found = {**notes, "tests": tests, "truncated": int((rows["truncated"] > 0).sum())}
    answers = {label for predicted in rows["predicted"] for label in json.loads(predicted)}
    if len(answers) == 1 and len(rows) > 1:
        found["one_answer_throughout"] = answers.pop()
    return found


def suite_set(suites: tuple[Tests, ...]) -> SuiteSet:
    """The set of suites that are there already; raises :class:`~workbench.errors.ConfigError` for equal names."""
    repeated = [name for name, count in Counter(suite.name for suite in suites).items() if count > 1]
    if repeated:
        raise ConfigError(f"two suites are called {repeated[0]!r}; give each file a 'suite:' name of its own")
    names = ", ".join(suite.name for suite in suites)
    about = suites[0].description if len(suites) == 1 else f"{len(suites)} suites"
    return SuiteSet(names, about, lambda _: suites)


def _by_suite(items: Sequence[SuiteCase]) -> Iterator[tuple[Tests, list[SuiteCase]]]:
    grouped: dict[str, list[SuiteCase]] = {}
    for item in items:
        grouped.setdefault(item.suite.name, []).append(item)
    return ((group[0].suite, group) for group in grouped.values())


def _judged(predictor: Predictor, items: Sequence[SuiteCase]) -> list[dict[str, Any]]:
    examples = [example for item in items for example in item.examples()]
    predictions = iter(predictor.predict(examples))
    return [_row(predictor, item, [next(predictions) for _ in item.case.examples]) for item in items]


def _row(predictor: Predictor, item: SuiteCase, predictions: list[Prediction]) -> dict[str, Any]:
    margin = item.test.expectation.judge(item.case, predictions)
    good, bad = _members(predictor, item, predictions)
    return {
        "id": item.id,
        "group": item.group,
        "capability": item.test.capability,
        "test": item.test.name,
        "kind": str(item.test.kind),
        "template": item.case.template,
        "applied": margin is not None,
        "correct": None if margin is None else margin >= 0,
        "margin": margin,
        "reason": "" if margin is not None else _NOT_THIS_CASE,
        "truncated": sum(p.truncated for p in predictions),
        "texts": json.dumps(item.case.examples, ensure_ascii=False),
        "labels": json.dumps(item.case.labels),
        "predicted": json.dumps([p.label for p in predictions]),
        "probabilities": json.dumps([dict(p.probabilities) for p in predictions]),
        "good": good,
        "bad": bad,
    }


def _unanswered(item: SuiteCase, reason: str) -> dict[str, Any]:
    """The row of a case that this model cannot be asked."""
    return {
        "id": item.id,
        "group": item.group,
        "capability": item.test.capability,
        "test": item.test.name,
        "kind": str(item.test.kind),
        "template": item.case.template,
        "applied": False,
        "correct": None,
        "margin": None,
        "reason": reason,
        "truncated": 0,
        "texts": json.dumps(item.case.examples, ensure_ascii=False),
        "labels": json.dumps(item.case.labels),
        "predicted": "[]",
        "probabilities": "[]",
        "good": " ".join(item.case.examples[0]),
        "bad": "",
    }


def _members(predictor: Predictor, item: SuiteCase, predictions: list[Prediction]) -> tuple[str, str]:
    """Two texts to compare: with the right and the given label, or the original and the variant furthest off."""
    examples = item.examples()
    first = predictions[0]
    if len(examples) > 1:
        moved = [abs(p.of(first.label) - first.of(first.label)) for p in predictions]
        far = max(range(1, len(examples)), key=lambda i: moved[i])
        return predictor.members(examples[0], first.label), predictor.members(examples[far], first.label)
    right = item.case.labels[0] or first.label
    return predictor.members(examples[0], right), predictor.members(examples[0], first.label)


def export_texts(challenge: SuiteSet, settings: CheckSettings, path: Path) -> int:
    """Write the texts of all examples with their ids, in the order predictions must have; returns their number."""
    examples = [example for item in challenge.load(settings).items for example in item.examples()]
    lines = [json.dumps({"id": e.id, "texts": e.texts}, ensure_ascii=False) + "\n" for e in examples]
    write_atomically(path, "".join(lines).encode())
    return len(examples)
