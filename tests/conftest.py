"""Converts the GGUF model before the tests that use it, and counts skipped tests where CI asks for it.

Skips are counted against ``tests/allowed_skips.txt`` where ``WORKBENCH_COUNT_SKIPS`` is set.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest

from tests.helpers import needs_smollm2

ALLOWED = Path(__file__).with_name("allowed_skips.txt")


def allowed_patterns() -> list[str]:
    """Patterns of test ids, one a line; what follows ``#`` is the reason."""
    lines = (line.split("#")[0].strip() for line in ALLOWED.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line]


class SkipCount:
    """Fails the session where a test is skipped that the list does not allow."""

    def __init__(self) -> None:
        self.unexpected: list[str] = []

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        is_allowed = any(fnmatch(report.nodeid, pattern) for pattern in allowed_patterns())
        if report.skipped and not hasattr(report, "wasxfail") and not is_allowed:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
            self.unexpected.append(f"{report.nodeid}: {reason}")

    pytest_runtest_logreport = _note
    pytest_collectreport = _note

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Iterator[None]:
        yield
        if self.unexpected and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.unexpected:
            terminalreporter.section(f"skipped, but not in {ALLOWED.name}", red=True)
            for line in self.unexpected:
                terminalreporter.line(line)


@cache
def convert_smollm2() -> None:
    """Convert the model once for each cache: the conversion says so on stderr, whichever test is the first."""
    from workbench.models.loading import locate

    locate("smollm2-135m")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests of the GGUF model begin with it converted."""
    skips = list(item.iter_markers("skipif"))
    if needs_smollm2.mark in skips and not any(mark.args[0] for mark in skips):
        convert_smollm2()


def pytest_configure(config: pytest.Config) -> None:
    """Register the count."""
    if os.environ.get("WORKBENCH_COUNT_SKIPS"):
        config.pluginmanager.register(SkipCount(), "skip count")
