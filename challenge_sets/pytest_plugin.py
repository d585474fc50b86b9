"""Suites as pytest items: ``pytest --workbench-suite sentiment --workbench-model smollm2-135m``.

Each test of a suite is an item that fails if its failure rate is above the budget: the test's own
(``budget`` in the suite), else ``--workbench-budget``. Nothing happens without ``--workbench-suite``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from workbench.terminal import counted

if TYPE_CHECKING:
    from workbench.runs import Run

__all__ = ["OverBudgetError", "SuiteFile", "SuiteTestItem"]

_DEFAULT_FAILURE_BUDGET = 0.1
_EXAMPLES_SHOWN = 3


class OverBudgetError(Exception):
    """A test failed more often than its budget allows."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options."""
    group = parser.getgroup("workbench", "behavioural tests of language models")
    group.addoption(
        "--workbench-suite", action="append", default=[], help="suite: a name or a file; repeatable"
    )
    group.addoption(
        "--workbench-model", help="model to test: a known name, a folder, a hub id, module:function"
    )
    group.addoption("--workbench-predictions", help="JSONL of predictions in place of a model")
    group.addoption("--workbench-dtype", default="float32", help="precision of the model")
    group.addoption(
        "--workbench-budget",
        type=float,
        default=_DEFAULT_FAILURE_BUDGET,
        help="failure rate allowed where a test names none",
    )
    group.addoption("--workbench-limit", type=int, help="only the first N cases of each test")


def pytest_configure(config: pytest.Config) -> None:
    """Suites take the place of the paths that pytest would collect, or are added to those that are named."""
    names = config.getoption("--workbench-suite")
    if not names:
        return
    from challenge_sets.suite import suite_path
    from workbench.errors import WorkbenchError

    if not config.getoption("--workbench-model") and not config.getoption("--workbench-predictions"):
        raise pytest.UsageError("--workbench-suite needs --workbench-model or --workbench-predictions")
    try:
        paths = [str(suite_path(name).resolve()) for name in names]
    except WorkbenchError as error:
        raise pytest.UsageError(str(error)) from error
    named = config.args if config.args_source is pytest.Config.ArgsSource.ARGS else []
    config.args = [*named, *paths]


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> SuiteFile | None:
    """A file that was named as a suite."""
    names = parent.config.getoption("--workbench-suite")
    if not names or file_path.suffix not in (".yaml", ".yml", ".jsonl"):
        return None
    from challenge_sets.suite import suite_path

    wanted = [suite_path(name).resolve() for name in names]
    if file_path.resolve() in wanted or file_path.resolve().parent in wanted:
        return SuiteFile.from_parent(parent, path=file_path)
    return None


class SuiteFile(pytest.File):
    """One suite: its tests are scored together, when the first of them runs."""

    _run: Run | None = None

    def collect(self) -> Iterator[SuiteTestItem]:
        """One item a test."""
        from challenge_sets.suite import load_suites
        from challenge_sets.suites.suite_set import SuiteCase
        from workbench.errors import WorkbenchError

        try:
            suites = load_suites(str(self.path))
        except WorkbenchError as error:
            raise self.CollectError(str(error)) from error
        for suite in suites:
            for test in suite.tests:
                group = SuiteCase(suite, test, test.cases[0]).group
                yield SuiteTestItem.from_parent(self, name=test.name, group=group, budget=test.budget)

    def run(self, folder: Path) -> Run:
        """The stored run, made on the first call."""
        if self._run is None:
            self._run = _run(self.config, self.path, folder)
        return self._run


def _run(config: pytest.Config, path: Path, folder: Path) -> Run:
    from challenge_sets.checking import check, check_predictions, find_suites
    from workbench.evaluate import TaskOptions
    from workbench.models import load
    from workbench.models.function_names import is_function_name, load_function

    options = TaskOptions(limit_per_paradigm=config.getoption("--workbench-limit"))
    challenge = find_suites(str(path), options)
    predictions = config.getoption("--workbench-predictions")
    if predictions:
        return check_predictions(Path(predictions), challenge, out=folder)
    name, dtype = config.getoption("--workbench-model"), config.getoption("--workbench-dtype")
    model = load_function(name) if is_function_name(name) else load(name, dtype=dtype)
    return check(model, challenge, out=folder, doctor=False)


class SuiteTestItem(pytest.Item):
    """One test of a suite, held to its failure budget."""

    def __init__(self, *, group: str, budget: float | None, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.group = group
        self.budget = self.config.getoption("--workbench-budget") if budget is None else budget

    def runtest(self) -> None:
        """Raise :class:`OverBudgetError` with the worst cases if the failure rate is above the budget."""
        from workbench.runs import default_root

        assert isinstance(self.parent, SuiteFile)
        run = self.parent.run(default_root())
        rate = run.results.get(self.group, {}).get("failure_rate")
        if rate is None:
            pytest.skip("no case of this test applied")
        self.user_properties.append(("failure_rate", rate.value))
        if rate.value <= self.budget:
            return
        examples = run.examples()
        failing = examples[(examples["group"] == self.group) & examples["correct"].eq(False)]
        shown = "\n".join(
            f"  {row.texts} predicted {row.predicted}" for row in failing.head(_EXAMPLES_SHOWN).itertuples()
        )
        raise OverBudgetError(
            f"failure rate {rate.text(3)} of {counted(rate.n, 'case')} is above the "
            f"budget {self.budget:g}; the worst:\n{shown}\nall in {run.path}"
        )

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        """The message alone for a budget or a user's mistake."""
        from workbench.errors import WorkbenchError

        if isinstance(excinfo.value, (OverBudgetError, WorkbenchError)):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Suite, capability and test."""
        return self.path, None, self.group
