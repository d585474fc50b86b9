"""Interventions: which activations of a clean run bring its answer back in a corrupted one."""

from __future__ import annotations

from workbench.analysis.patching._ablation import mean_ablation
from workbench.analysis.patching._activation import Patch, activation_patching, patched_values
from workbench.analysis.patching._attribution import attribution_patching
from workbench.analysis.patching._mean import mean_effects
from workbench.analysis.patching._metric import MetricKind, PatchingMetric
from workbench.analysis.patching._pair import PatchPair, PatchSite, patch_pair
from workbench.analysis.patching._path import OUTPUT, Component, component, head_paths, path_patching

__all__ = [
    "OUTPUT",
    "Component",
    "MetricKind",
    "Patch",
    "PatchPair",
    "PatchSite",
    "PatchingMetric",
    "activation_patching",
    "attribution_patching",
    "component",
    "head_paths",
    "mean_ablation",
    "mean_effects",
    "patch_pair",
    "patched_values",
    "path_patching",
]
