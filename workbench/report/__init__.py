"""The self-contained HTML report of runs, their results as tables for papers, and model cards.

The module can itself be called: ``workbench.report(run)`` is :func:`report`.
"""

from __future__ import annotations

from workbench.report._pictures import Picture, picture_of
from workbench.report._tables import FORMATS, model_card, render_table, runs_of
from workbench.report._write import render_report, write_report
from workbench.report.reporting import report
from workbench.rooms import callable_room

__all__ = [
    "FORMATS",
    "Picture",
    "model_card",
    "picture_of",
    "render_report",
    "render_table",
    "report",
    "runs_of",
    "write_report",
]

callable_room(__name__, report)
