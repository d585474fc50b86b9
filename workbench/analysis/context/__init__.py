"""How far back a model looks: loss and accuracy when the context is shortened, shuffled, thinned or replaced.

After Khandelwal et al. 2018, "Sharp Nearby, Fuzzy Far Away: How Neural Language Models Use Context".
"""

from __future__ import annotations

from workbench.analysis.context._curves import (
    ContextPoint,
    ToleranceOf,
    context_points,
    effective_length,
    points_frame,
)
from workbench.analysis.context._edits import (
    FULL,
    Condition,
    ContextItem,
    Operation,
    WordClass,
    conditions_of,
    edited,
    items_of_file,
    items_of_lambada,
    items_of_text,
)
from workbench.analysis.context._run import EFFECTIVE, ContextSettings, context_examples, context_run

__all__ = [
    "EFFECTIVE",
    "FULL",
    "Condition",
    "ContextItem",
    "ContextPoint",
    "ContextSettings",
    "Operation",
    "ToleranceOf",
    "WordClass",
    "conditions_of",
    "context_examples",
    "context_points",
    "context_run",
    "edited",
    "effective_length",
    "items_of_file",
    "items_of_lambada",
    "items_of_text",
    "points_frame",
]
