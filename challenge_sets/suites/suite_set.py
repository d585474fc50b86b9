"""Suites as challenge sets: one row per case, failure rates per test, from a model or a prediction file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pandas as pd

from challenge_sets._records import TestCase
from challenge_sets.sets.base import QuestionSet, Results, Rows, within_limits
from challenge_sets.suites.expectations import Prediction
from challenge_sets.suites.predict import Example, PredictionFile, Predictor, predictor_for
from challenge_sets.suites.tests import REWRITING, LeftOut, Suite, Test
from workbench.data import Dataset
from workbench.errors import ConfigError, TaskError
from workbench.evaluate import TaskItem, TaskOptions
from workbench.evaluate.inference import InferenceOptions
from workbench.models import Kind, LoadedModel, TextFunction
from workbench.runs import write_atomically
from workbench.statistics import Estimate, clustered_wilson

__all__ = ["SuiteCase", "SuiteSet", "export_texts", "suite_set"]

_NOT_THIS_CASE = (
    "the test does not apply to what the model answers for the original, or the case has no variant"
)
_NONE_APPLIED = "no case of the test applied"
_NOT_ASKED = "no case was within the limit"


class SuiteCase(NamedTuple):
    """A case with the test and the suite it belongs to."""

    suite: Suite
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
class SuiteSet(QuestionSet):
    """One suite or several, which ``read`` makes from the options; ``named`` is what the user called them.

    The failure rate of a test counts its cases that applied; a case fails if any of its examples does.
    Intervals are Wilson's, clustered by template.
    """

    read: Callable[[TaskOptions], tuple[Suite, ...]]
    _: KW_ONLY
    named: str | None = None
    version: int = 2
    kinds: tuple[Kind, ...] = (Kind.CLASSIFIER, Kind.FUNCTION, Kind.CAUSAL, Kind.MASKED, Kind.SEQ2SEQ)
    accepts: ClassVar[tuple[str, ...]] = ("limit_per_paradigm", "chat", "system")

    @cached_property
    def _suites(self) -> tuple[Suite, ...]:
        return self.read(self.options)

    def items(self) -> Dataset[SuiteCase]:
        """All cases within the limits (``limit_per_paradigm`` by test)."""
        asked = [SuiteCase(s, test, case) for s in self._suites for test in s.tests for case in test.cases]
        kept = within_limits(asked, lambda item: item.group, self.options)
        texts = (text for item in kept for example in item.case.examples for text in example)
        return self.dataset(kept, texts, "suite")

    def policy(self, model: LoadedModel | TextFunction | PredictionFile) -> str:
        """How labels come about; raises :class:`~workbench.errors.TaskError` if no suite can be asked."""
        found = [self._predictor_or_reason(model, suite) for suite in self._suites]
        policies = [one.policy for one in found if not isinstance(one, TaskError)]
        if not policies:
            raise next(one for one in found if isinstance(one, TaskError))
        return "; ".join(dict.fromkeys(policies))

    def _predictor_or_reason(
        self,
        model: LoadedModel | TextFunction | PredictionFile,
        suite: Suite,
        batch_tokens: str | int = "auto",
    ) -> Predictor | TaskError:
        """The predictor, or why this model cannot be asked: of several suites the others go on."""
        if isinstance(model, PredictionFile):
            return model
        try:
            return predictor_for(model, suite, batch_tokens)
        except TaskError as error:
            return error

    def rows(
        self,
        model: LoadedModel | TextFunction | PredictionFile,
        items: Sequence[TaskItem],
        options: InferenceOptions,
        done: Set[int],
    ) -> Rows:
        """Whether each case applied, whether it passed, by which margin, and what was predicted."""
        todo = [item.fields["item"] for place, item in enumerate(items) if place not in done]
        for suite, cases in _by_suite(todo):
            predictor = self._predictor_or_reason(model, suite, options.batch_tokens)
            if isinstance(predictor, TaskError):
                yield [_unanswered(case, str(predictor)) for case in cases]
                continue
            for start in range(0, len(cases), self.chunk):
                yield _judged(predictor, cases[start : start + self.chunk])

    def results(self, examples: pd.DataFrame) -> Results:
        """Failure rate of each test, over the cases that applied; of rules, those with most failures first."""
        found: Results = {}
        for group, part in examples[examples["applied"].astype(bool)].groupby("group", sort=False):
            failed = [not passed for passed in part["correct"]]
            rate = clustered_wilson(failed, part["template"].tolist(), higher_is_better=False)
            found[str(group)] = {"failure_rate": rate}
        if set(examples["capability"]) == {REWRITING}:
            return dict(sorted(found.items(), key=lambda item: -_failures(item[1]["failure_rate"])))
        return found

    def notes(self, rows: pd.DataFrame) -> dict[str, Any]:
        """The tests, those left out too: kind, capability, description, failure budget, and a reason if not run.

        Of each the cases asked and applied; beside them how many were truncated, and the answer if all got one.
        """
        found = {
            **super().notes(rows),
            "tests": _counted(self._tests(), rows),
            "truncated": int((rows["truncated"] > 0).sum()),
        }
        answers = {label for predicted in rows["predicted"] for label in json.loads(predicted)}
        if len(answers) == 1 and len(rows) > 1:
            found["one_answer_throughout"] = answers.pop()
        return found

    def _tests(self) -> dict[str, dict[str, Any]]:
        tests = {}
        for suite in self._suites:
            for test in suite.tests:
                group = SuiteCase(suite, test, test.cases[0]).group
                tests[group] = {**_note(suite, test), "budget": test.budget, "cases": len(test.cases)}
            for left in suite.left_out:
                group = f"{suite.name}/{left.capability}/{left.name}"
                tests[group] = {**_note(suite, left), "budget": None, "cases": left.cases}
                tests[group] |= {"asked": 0, "applied": 0, "reason": left.reason}
        return tests


def _failures(rate: Estimate) -> int:
    return round(rate.value * rate.n)


def _note(suite: Suite, test: Test | LeftOut) -> dict[str, Any]:
    return {
        "suite": suite.name,
        "capability": test.capability,
        "test": test.name,
        "kind": str(test.kind),
        "description": test.description,
    }


def _counted(tests: dict[str, dict[str, Any]], rows: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """The tests with their cases asked and applied; one of which no case applied gets the reason."""
    for group, part in rows.groupby("group", sort=False):
        applied = int(part["applied"].sum())
        reasons = [reason for reason in part["reason"].dropna().unique() if reason] or [_NONE_APPLIED]
        counts = {"asked": len(part), "applied": applied, "reason": "" if applied else reasons[0]}
        tests[str(group)] = {**tests[str(group)], **counts}
    unasked = {"asked": 0, "applied": 0, "reason": _NOT_ASKED}
    return {group: {**unasked, **test} for group, test in tests.items()}


def suite_set(suites: tuple[Suite, ...], named: str | None = None) -> SuiteSet:
    """The set of suites that are there already; raises :class:`~workbench.errors.ConfigError` for equal names."""
    repeated = [name for name, count in Counter(suite.name for suite in suites).items() if count > 1]
    if repeated:
        raise ConfigError(f"two suites are called {repeated[0]!r}; give each file a 'suite:' name of its own")
    names = ", ".join(suite.name for suite in suites)
    about = suites[0].description if len(suites) == 1 else f"{len(suites)} suites"
    return SuiteSet(names, about, lambda _: suites, named=named)


def _by_suite(items: Sequence[SuiteCase]) -> Iterator[tuple[Suite, list[SuiteCase]]]:
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


def export_texts(challenge: SuiteSet, path: Path) -> int:
    """Write the texts of all examples with their ids, in the order predictions must have; returns their number."""
    examples = [example for item in challenge.items() for example in item.examples()]
    lines = [json.dumps({"id": e.id, "texts": e.texts}, ensure_ascii=False) + "\n" for e in examples]
    write_atomically(path, "".join(lines).encode())
    return len(examples)
