"""Labelled public sets as suites: HANS, contrast sets, and CheckList's exported suites."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from challenge_sets._records import TestCase
from challenge_sets.readers import contrast_sets, hans
from challenge_sets.sets.base import Results
from challenge_sets.suites.checklist import SENTIMENT_PROMPT, read_checklist_suite
from challenge_sets.suites.expectations import EqualLabel, TestKind
from challenge_sets.suites.suite_set import SuiteSet
from challenge_sets.suites.tests import Suite, SuitePrompt, Test
from workbench.errors import DataError
from workbench.evaluate import TaskOptions
from workbench.statistics import clustered_wilson, proportion

__all__ = ["CHECKLIST", "CONTRAST_SETS", "HANS", "ContrastSets", "consistency_suite"]

_CONSISTENCY = "Consistency"
_NLI_LABELS = {
    "entailment": ("LABEL_0", "0"),
    "non-entailment": ("not_entailment", "neutral", "contradiction", "LABEL_1", "1", "LABEL_2", "2"),
}
_NLI_PROMPT = SuitePrompt(
    "{0} Does it follow that {1} Answer:", {"entailment": " Yes", "non-entailment": " No"}
)
_BOOLQ_PROMPT = SuitePrompt("{1}\nQuestion: {0}?\nAnswer:", {"no": " No", "yes": " Yes"})


def _labelled(name: str, capability: str, cases: Iterable[TestCase], description: str) -> Test:
    return Test(
        name=name,
        capability=capability,
        kind=TestKind.MFT,
        cases=tuple(cases),
        expectation=EqualLabel(),
        description=description,
    )


class ContrastSets(SuiteSet):
    """Contrast sets: beside failure rates accuracy, and consistency: the share of sets with all members right."""

    def results(self, examples: pd.DataFrame) -> Results:
        """As :class:`SuiteSet`, with ``consistency`` of whole sets, and ``accuracy`` of originals and of edits."""
        found = super().results(examples)
        judged = examples[examples["applied"].astype(bool)]
        for (group, capability), part in judged.groupby(["group", "capability"], sort=False):
            right = part["correct"].tolist()
            if capability == _CONSISTENCY:
                found[str(group)]["consistency"] = proportion(right)
            else:
                found[str(group)]["accuracy"] = clustered_wilson(right, part["template"].tolist())
        return found


def _hans(options: TaskOptions) -> tuple[Suite, ...]:
    groups: dict[tuple[str, str, str], list[TestCase]] = {}
    for item in hans.read(HANS.folder(options)):
        label = "entailment" if item.entailed else "non-entailment"
        case = TestCase(item.id, item.template, ((item.premise, item.hypothesis),), (label,))
        groups.setdefault((item.heuristic, label, item.subcase), []).append(case)
    tests = tuple(
        _labelled(subcase, f"{heuristic}, {label}", cases, f"gold label {label}")
        for (heuristic, label, subcase), cases in groups.items()
    )
    suite = Suite(name="hans", labels=_NLI_LABELS, tests=tests, prompt=_NLI_PROMPT, description=HANS_ABOUT)
    return (suite,)


def _contrast(options: TaskOptions) -> tuple[Suite, ...]:
    folder = CONTRAST_SETS.folder(options)
    suites = []
    labels: dict[str, tuple[str, ...]]
    if any(folder.glob("*test*original*.tsv")):
        labels = {"negative": ("LABEL_0", "0"), "positive": ("LABEL_1", "1")}
        answers = {k: v for k, v in SENTIMENT_PROMPT.answers.items() if k in labels}
        prompt = SuitePrompt(SENTIMENT_PROMPT.text, answers)
        suites.append(consistency_suite("contrast_imdb", contrast_sets.read_imdb(folder), labels, prompt))
    if (folder / "boolq_perturbed.json").is_file() or any(map(contrast_sets.is_boolq, folder.glob("*.json"))):
        labels = {"no": ("false", "LABEL_0", "0"), "yes": ("true", "LABEL_1", "1")}
        suites.append(
            consistency_suite("contrast_boolq", contrast_sets.read_boolq(folder), labels, _BOOLQ_PROMPT)
        )
    if not suites:
        raise DataError(f"no contrast sets in {folder}; it needs imdb_test_*.tsv or boolq_perturbed.json")
    return tuple(suites)


def consistency_suite(
    name: str,
    sets: Iterable[contrast_sets.ContrastSet],
    labels: dict[str, tuple[str, ...]],
    prompt: SuitePrompt,
) -> Suite:
    """Three tests: all members of a set right (1 - failure rate is consistency), originals, edited ones."""
    found = list(sets)
    tests = (
        _labelled(
            "whole sets",
            _CONSISTENCY,
            [_members(s, f"set-{s.id}", s.members) for s in found],
            "fails unless all members are right: 1 - failure rate is the consistency of Gardner et al.",
        ),
        _labelled(
            "originals",
            "Accuracy",
            [
                _members(s, f"original-{s.id}-{i}" if i else f"original-{s.id}", (m,))
                for s in found
                for i, m in enumerate(s.members)
                if m.original
            ],
            "the unedited examples",
        ),
        _labelled(
            "edited",
            "Accuracy",
            [
                _members(s, f"edited-{s.id}-{i}", (m,))
                for s in found
                for i, m in enumerate(s.members)
                if not m.original
            ],
            "the edited examples, clustered by the original",
        ),
    )
    return Suite(name=name, labels=labels, tests=tests, prompt=prompt)


def _members(
    found: contrast_sets.ContrastSet, name: str, members: tuple[contrast_sets.Member, ...]
) -> TestCase:
    return TestCase(name, found.id, tuple(m.texts for m in members), tuple(m.label for m in members))


def _checklist(options: TaskOptions) -> tuple[Suite, ...]:
    folder = CHECKLIST.folder(options)
    if folder.is_file():
        return (read_checklist_suite(folder),)
    files = sorted(Path(folder).glob("*.jsonl"))
    if not files:
        raise DataError(f"no exported suite (*.jsonl) in {folder}")
    return tuple(read_checklist_suite(file) for file in files)


HANS_ABOUT = "HANS: three heuristics of natural language inference that fail"
HANS = SuiteSet("hans", HANS_ABOUT, _hans, files="heuristics_evaluation_set.txt")
CONTRAST_SETS = ContrastSets(
    "contrast_sets",
    "IMDb and BoolQ with small edits; consistency of a set",
    _contrast,
    files="imdb_*_original.tsv with imdb_*_contrast.tsv, or boolq_perturbed.json",
)
CHECKLIST = SuiteSet(
    "checklist", "CheckList's release suites exported as JSONL", _checklist, files="exported suites (*.jsonl)"
)
