"""Interventions: which activations of a clean run bring its answer back in a corrupted one."""

from __future__ import annotations

from workbench.analysis.patching._activation import Patch, activation_patching, patched_values
from workbench.analysis.patching._metric import Metric, MetricKind
from workbench.analysis.patching._pair import PatchPair, PatchSite, patch_pair

__all__ = [
    "Metric",
    "MetricKind",
    "Patch",
    "PatchPair",
    "PatchSite",
    "activation_patching",
    "patch_pair",
    "patched_values",
]
