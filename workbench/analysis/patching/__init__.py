"""Interventions: which activations of a clean run bring its answer back in a corrupted one."""

from __future__ import annotations

from workbench.analysis.patching._activation import (
    MeanOver,
    Patch,
    activation_patching,
    attribution_patching,
    mean_ablation,
    mean_effects,
    patched_values,
)
from workbench.analysis.patching._pair import MetricKind, PatchingMetric, PatchPair, PatchSite, patch_pair
from workbench.analysis.patching._path import (
    OUTPUT,
    Component,
    PathMlps,
    component,
    head_paths,
    path_patching,
)
from workbench.analysis.patching.patch import PatchMethod, patch, patch_effects

__all__ = [
    "OUTPUT",
    "Component",
    "MeanOver",
    "MetricKind",
    "Patch",
    "PatchMethod",
    "PatchPair",
    "PatchSite",
    "PatchingMetric",
    "PathMlps",
    "activation_patching",
    "attribution_patching",
    "component",
    "head_paths",
    "mean_ablation",
    "mean_effects",
    "patch",
    "patch_effects",
    "patch_pair",
    "patched_values",
    "path_patching",
]
