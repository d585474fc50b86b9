"""Challenge sets: templates and tests of behaviour, minimal pairs and diagnostics."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from challenge_sets._records import MinimalPair
from challenge_sets.perturbations import PERTURBATIONS, Perturbation, perturbation
from challenge_sets.templates import Case, Template, TemplateError

# Names whose modules import torch: imported when first used.
_LATER = {
    "SETS": "diagnostics",
    "CheckSettings": "diagnostics",
    "Suite": "suite",
    "check": "diagnostics",
    "equivalent_rewrites": "rewrites",
    "explain": "explanations",
    "load_suites": "suite",
    "groups_table": "tables",
    "pair_scorer": "pairs",
    "rewritten": "rewrites",
    "score_pairs": "pairs",
    "suite_table": "tables",
}

__all__ = [
    "PERTURBATIONS",
    "Case",
    "MinimalPair",
    "Perturbation",
    "Template",
    "TemplateError",
    "perturbation",
    *_LATER,
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'challenge_sets' has no attribute {name!r}")
    value = getattr(import_module(f"challenge_sets.{_LATER[name]}"), name)
    globals()[name] = value
    return value
