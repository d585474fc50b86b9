"""Figures: views that open offline in any browser, and the same figures as SVG, PNG, PDF or CSV.

They draw and compute nothing: what they show comes from a trace or a :class:`~workbench.Statistic`.
Each function returns a :class:`View`.
"""

from __future__ import annotations

from workbench.figures._view import View
from workbench.figures.alignment import alignment_view
from workbench.figures.head import head_view
from workbench.figures.matrix import head_statistics_grid, heat_map
from workbench.figures.model import model_view
from workbench.figures.neuron import neuron_view
from workbench.figures.plots import Curve, curve_plot
from workbench.figures.saliency import attribution_view
from workbench.figures.table import dependency_table
from workbench.figures.text import highlighted_text

__all__ = [
    "Curve",
    "View",
    "alignment_view",
    "attribution_view",
    "curve_plot",
    "dependency_table",
    "head_statistics_grid",
    "head_view",
    "heat_map",
    "highlighted_text",
    "model_view",
    "neuron_view",
]
