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
from workbench.errors import DataError, UnknownName

__all__ = [
    "DIR",
    "INV",
    "MFT",
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

_REWRITES = "rewrites:"
_SENTENCE_ENCODER = "minilm-l6"
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


def load_suites(name: str) -> tuple[Suite, ...]:
    """The suites called ``name``: one that comes with the package, a YAML file, an exported CheckList suite
    (JSONL), or a folder of such files. ``all`` is every suite of the package. ``rewrites:NAME`` asks instead
    whether labels survive equivalent rewrites of the suite's texts (see :mod:`challenge_sets.rewrites`).

    Raises :class:`~workbench.errors.ConfigError` naming file and line for what is not in the format.

    Example:
        ```python
        from challenge_sets import load_suites

        (suite,) = load_suites("sentiment")
        print([test.name for test in suite.tests])
        ```
    """
    if name.startswith(_REWRITES):
        return _rewritten(name.removeprefix(_REWRITES))
    if name == "all":
        return tuple(load_suite_file(_folder() / f"{each}.yaml") for each in suite_names())
    path = suite_path(name)
    if path.is_dir():
        found = sorted(p for p in path.iterdir() if p.suffix in _ENDINGS)
        if not found:
            raise DataError(f"no suite in {path}; it needs *.yaml or *.jsonl files")
        return tuple(_load(each) for each in found)
    return (_load(path),)


def _rewritten(name: str) -> tuple[Suite, ...]:
    from challenge_sets.rewrites import embedding_similarity, rewritten
    from workbench.models import load

    suites = load_suites(name)
    score = embedding_similarity(load(_SENTENCE_ENCODER))
    return tuple(rewritten(suite, score) for suite in suites)


def _load(path: Path) -> Suite:
    if path.suffix in (".yaml", ".yml"):
        return load_suite_file(path)
    return read_checklist_suite(path)  # refuses pickles
