"""Entities: precision, recall and F1 of whole spans (Tjong Kim Sang & De Meulder 2003, section 3)."""

from __future__ import annotations

from workbench.evaluate.metrics._metric import OfMeasure
from workbench.statistics import span_f1_measure, span_precision_measure, span_recall_measure

__all__ = ["ENTITY_METRICS"]

_COUNTS = ("entities_right", "entities_predicted", "entities_gold")

ENTITY_METRICS = (
    OfMeasure("entity_f1", _COUNTS, span_f1_measure, "F1 of entities"),
    OfMeasure("entity_precision", _COUNTS, span_precision_measure, "precision of entities"),
    OfMeasure("entity_recall", _COUNTS, span_recall_measure, "recall of entities"),
)
