"""Behavioural tests (Ribeiro et al. 2020): suites in YAML or Python, run on models or on their predictions."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from challenge_sets._records import TestCase
from challenge_sets.suites.checklist import read_checklist_suite
from challenge_sets.suites.expectations import (
    Change,
    CheckListInvariant,
    Custom,
    EqualLabel,
    Expectation,
    Invariant,
    Monotonic,
    NotLabel,
    Prediction,
    Shift,
    TestKind,
    VariantLabel,
)
from challenge_sets.suites.load import load_suite_file
from challenge_sets.suites.predict import PredictionFile
from challenge_sets.suites.suite_set import SuiteSet, export_texts, suite_set
from challenge_sets.suites.tests import DIR, INV, MFT, Suite, SuitePrompt, Test
from workbench.data.rows import TextPair
from workbench.errors import DataError, UnknownName
from workbench.evaluate.tasks import TASKS
from workbench.evaluate.tasks.task_types import TextClassification

__all__ = [
    "DIR",
    "INV",
    "MFT",
    "REWRITES",
    "Change",
    "CheckListInvariant",
    "Custom",
    "EqualLabel",
    "Expectation",
    "Invariant",
    "Monotonic",
    "NotLabel",
    "Prediction",
    "PredictionFile",
    "Shift",
    "Suite",
    "SuitePrompt",
    "SuiteSet",
    "Test",
    "TestCase",
    "TestKind",
    "VariantLabel",
    "export_texts",
    "load_suites",
    "suite_names",
    "suite_path",
    "suite_set",
]

REWRITES = "rewrites:"
_SENTENCE_ENCODER = "minilm-l6"
_MASKED = "novels-encoder"  # says what else could stand in a text
_ENDINGS = (".yaml", ".yml", ".jsonl")
_PICKLES = (".pkl", ".pickle", ".gz", ".tgz", ".tar", ".zip")


def suite_names() -> list[str]:
    """The suites that come with the package."""
    return sorted(path.stem for path in _folder().glob("*.yaml"))


def _folder() -> Path:
    return Path(str(files("challenge_sets"))) / "suites"


def suite_path(name: str) -> Path:
    """The file of a suite given by name or path; raises :class:`~workbench.errors.UnknownName` with near names."""
    path = Path(name)
    if path.exists() or path.suffix in (*_ENDINGS, *_PICKLES) or len(path.parts) > 1:
        return path
    if name in suite_names():
        return _folder() / f"{name}.yaml"
    raise UnknownName("suite", name, suite_names(), "or give a file or folder")


def load_suites(name: str, data_dir: Path | None = None) -> tuple[Suite, ...]:
    """The suites called ``name``: one that comes with the package, a YAML file, an exported CheckList suite
    (JSONL), or a folder of such files. ``all`` is every suite of the package. ``rewrites:NAME`` asks instead
    whether labels survive rewrites of a suite's texts, or of those of a task that gives texts labels (``glue/sst2``,
    read from ``data_dir``): see :mod:`challenge_sets.rule_induction`.

    Raises :class:`~workbench.errors.ConfigError` naming file and line for what is not in the format.

    Example:
        ```python
        from challenge_sets import load_suites

        (suite,) = load_suites("sentiment")
        print([test.name for test in suite.tests])
        ```
    """
    if name.startswith(REWRITES):
        return _rewritten(name.removeprefix(REWRITES), data_dir)
    if name == "all":
        return tuple(load_suite_file(_folder() / f"{each}.yaml") for each in suite_names())
    path = suite_path(name)
    if path.is_dir():
        found = sorted(p for p in path.iterdir() if p.suffix in _ENDINGS)
        if not found:
            raise DataError(f"no suite in {path}; it needs *.yaml or *.jsonl files")
        return tuple(_load(each) for each in found)
    return (_load(path),)


def _rewritten(name: str, data_dir: Path | None) -> tuple[Suite, ...]:
    from challenge_sets.paraphrase_judge import embedding_similarity, nearer_than_fillers
    from challenge_sets.rule_induction import rewritten
    from workbench.models import load

    if name in _labelling_tasks():
        suites: tuple[Suite, ...] = (_suite_of_task(name, data_dir),)
    else:
        try:
            suites = load_suites(name)
        except UnknownName:
            known = [*suite_names(), *_labelling_tasks()]
            raise UnknownName("suite or task", name, known, "or give a file or folder") from None
    judge = nearer_than_fillers(load(_MASKED), embedding_similarity(load(_SENTENCE_ENCODER)))
    return tuple(rewritten(suite, judge) for suite in suites)


def _labelling_tasks() -> list[str]:
    """The tasks that give each text or pair one of several labels."""
    found = ((name, TASKS.get(name)) for name in TASKS)
    return [name for name, task in found if isinstance(task, TextClassification) and task.labels]


def _suite_of_task(name: str, data_dir: Path | None) -> Suite:
    """A task's texts as cases of one test, with its labels and prompt."""
    task = TASKS.get(name)
    assert isinstance(task, TextClassification)
    names = zip(*(task.labels, *task.aliases), strict=True)
    cases = tuple(
        TestCase(
            row.id,
            row.cluster or row.id,
            ((row.text,) if row.pair is None else (row.text, row.pair),),
            (None,),
        )
        for row in task.source.read(data_dir, task.split)
    )
    return Suite(
        name=name.rpartition("/")[2],
        labels=dict(zip(task.words, names, strict=True)),
        tests=(MFT("texts", "data", cases),),
        prompt=SuitePrompt(
            task.prompt(TextPair("", "{0}", "{1}", None)), {word: f" {word}" for word in task.words}
        ),
    )


def _load(path: Path) -> Suite:
    if path.suffix in (".yaml", ".yml"):
        return load_suite_file(path)
    return read_checklist_suite(path)  # refuses pickles
