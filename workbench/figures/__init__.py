"""Figures: views that open offline in any browser, and the same figures as SVG, PNG, PDF or CSV.

They draw and compute nothing: what they show comes from a trace or a :class:`~workbench.Statistic`.
Each function returns a :class:`View`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.figures._view import View
from workbench.figures.attention_views import alignment_view, head_view, model_view
from workbench.figures.matrix import head_clusters_view, head_statistics_grid, heat_map
from workbench.figures.neuron import neuron_view
from workbench.figures.plots import Curve, curve_plot
from workbench.figures.saliency import attribution_view
from workbench.figures.table import dependency_table
from workbench.figures.text import highlighted_text, highlighted_texts
from workbench.rooms import lazy_names

# their modules import those of what they draw: imported when first used
_HOMES = {
    "changes_view": "workbench.figures.changes",
    "comparison_plot": "workbench.figures.comparison",
    "frontier_plot": "workbench.figures.frontier",
    "generation_view": "workbench.figures.text",
    "lens_grid": "workbench.figures.lens",
    "lens_trajectory": "workbench.figures.lens",
    "patching_grid": "workbench.figures.patching",
    "preference_plot": "workbench.figures.comparison",
    "results_plot": "workbench.figures.comparison",
    "statistic_view": "workbench.figures.statistic",
    "detection_view": "workbench.figures.text",
    "surprisal_view": "workbench.figures.text",
    "trace_view": "workbench.figures.view_options",
}

__all__ = [
    "Curve",
    "View",
    "alignment_view",
    "attribution_view",
    "changes_view",
    "comparison_plot",
    "curve_plot",
    "dependency_table",
    "detection_view",
    "frontier_plot",
    "generation_view",
    "head_clusters_view",
    "head_statistics_grid",
    "head_view",
    "heat_map",
    "highlighted_text",
    "highlighted_texts",
    "lens_grid",
    "lens_trajectory",
    "model_view",
    "neuron_view",
    "patching_grid",
    "preference_plot",
    "results_plot",
    "statistic_view",
    "surprisal_view",
    "trace_view",
]

if TYPE_CHECKING:
    from workbench.figures.changes import changes_view
    from workbench.figures.comparison import comparison_plot, preference_plot, results_plot
    from workbench.figures.frontier import frontier_plot
    from workbench.figures.lens import lens_grid, lens_trajectory
    from workbench.figures.patching import patching_grid
    from workbench.figures.statistic import statistic_view
    from workbench.figures.text import detection_view, generation_view, surprisal_view
    from workbench.figures.view_options import trace_view

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
