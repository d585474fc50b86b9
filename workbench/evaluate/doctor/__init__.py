"""The doctor: numeric checks that a model must pass before its numbers are believed."""

from __future__ import annotations

from workbench.evaluate.doctor._examine import CHECKS, examine, self_check
from workbench.evaluate.doctor._records import Check, Report, Status

__all__ = ["CHECKS", "Check", "Report", "Status", "examine", "self_check"]
