"""Entities: precision, recall and F1 of whole spans (Tjong Kim Sang & De Meulder 2003, section 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from workbench.evaluate.metrics._metric import OfSums
from workbench.shapes import Array

__all__ = ["ENTITY_METRICS", "entity_spans"]


def entity_spans(tags: Sequence[str]) -> set[tuple[int, int, str]]:
    """Start, end (exclusive) and type of each entity in IOB1 or IOB2 tags; ``I-`` after another type starts one."""
    spans: set[tuple[int, int, str]] = set()
    start, kind = 0, ""
    for place, tag in enumerate([*tags, "O"]):
        mark, _, name = tag.partition("-")
        if kind and not (mark == "I" and name == kind):
            spans.add((start, place, kind))
            kind = ""
        if not kind and mark in ("B", "I"):
            start, kind = place, name
    return spans


def _counts(examples: pd.DataFrame) -> Array:
    """(item, 3): entities found and right, predicted, gold."""
    return examples[["entities_right", "entities_predicted", "entities_gold"]].to_numpy(float)


def _share(above: Array, below: Array) -> Any:
    return np.divide(above, below, out=np.zeros_like(below), where=below > 0)


ENTITY_METRICS = (
    OfSums("entity_f1", _counts, lambda s: _share(2 * s[..., 0], s[..., 1] + s[..., 2]), "F1 of entities"),
    OfSums("entity_precision", _counts, lambda s: _share(s[..., 0], s[..., 1]), "precision of entities"),
    OfSums("entity_recall", _counts, lambda s: _share(s[..., 0], s[..., 2]), "recall of entities"),
)
