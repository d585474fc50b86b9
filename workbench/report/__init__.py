"""The self-contained HTML report of runs, their results as tables for papers, and model cards."""

from __future__ import annotations

from workbench.report._card import model_card, runs_of
from workbench.report._pictures import Picture, picture_of
from workbench.report._tables import FORMATS, render_table
from workbench.report._write import render_report, write_report

__all__ = [
    "FORMATS",
    "Picture",
    "model_card",
    "picture_of",
    "render_report",
    "render_table",
    "runs_of",
    "write_report",
]
