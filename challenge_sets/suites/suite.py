"""A suite: tests that can be run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from challenge_sets._runner import check
from challenge_sets._set import CheckSettings
from challenge_sets.suites.suite_set import suite_set
from challenge_sets.suites.tests import Tests
from workbench.models import LoadedModel
from workbench.runs import Run

__all__ = ["Suite"]


@dataclass(frozen=True, kw_only=True)
class Suite(Tests):
    """Tests of one task, its labels (with other names that models give them), and its prompt."""

    def run(self, model: LoadedModel, *, out: Path | None = None, limit_per_test: int | None = None) -> Run:
        """Run all tests and store the run; see :func:`challenge_sets.diagnostics.check`."""
        settings = CheckSettings(set=self.name, limit_per_paradigm=limit_per_test)
        return check(model, suite_set((self,)), settings, out=out, doctor=False)
