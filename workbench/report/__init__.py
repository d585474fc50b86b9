"""The self-contained HTML report of a run."""

from __future__ import annotations

from workbench.report._write import render_report, write_report

__all__ = ["render_report", "write_report"]
