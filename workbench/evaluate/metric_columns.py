"""What each metric is made of: the columns of example rows, by definition, and the measure that joins them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from workbench.shapes import Array
from workbench.statistics import (
    Measure,
    bits_per_unit_measure,
    f1_measure,
    macro_f1_measure,
    matthews_measure,
    mean_measure,
    pearson_measure,
    perplexity_measure,
    span_f1_measure,
    span_precision_measure,
    span_recall_measure,
    spearman_measure,
    threshold_measure,
    unit_perplexity_measure,
)
from workbench.terminal import counted

__all__ = ["label_codes", "metric_columns", "not_scored"]

# The columns whose mean a metric is, in the order in which versions have written them.
_MEANS: dict[str, tuple[str, ...]] = {
    "accuracy": ("correct", "greedy"),
    "accuracy_norm": ("correct_norm",),
    "accuracy_bytes": ("correct_bytes",),
    "accuracy_per_token": ("correct_per_token",),
    "consistency": ("correct",),
    "exact_match": ("exact", "correct"),
    "mc2": ("true_mass",),
}
# Columns with what was predicted and what is right, in the same order.
_LABELS = (("prediction", "gold"), ("predicted", "gold"), ("predicted", "label"), ("predicted", "target"))
_PAIRED: dict[str, Measure] = {
    "matthews": matthews_measure,
    "f1": f1_measure,
    "macro_f1": macro_f1_measure,
    "pearson": pearson_measure,
    "spearman": spearman_measure,
}
_ENTITIES: dict[str, Measure] = {
    "entity_f1": span_f1_measure,
    "entity_precision": span_precision_measure,
    "entity_recall": span_recall_measure,
}
_ENTITY_COLUMNS = ["entities_right", "entities_predicted", "entities_gold"]
# Metrics of summed losses: the column that counts their units, none for a mean over items.
_LOSSES: dict[str, tuple[str | None, Measure]] = {
    "perplexity": (None, perplexity_measure),
    "token_perplexity": ("tokens", unit_perplexity_measure),
    "word_perplexity": ("words", unit_perplexity_measure),
    "byte_perplexity": ("bytes", unit_perplexity_measure),
    "bits_per_byte": ("bytes", bits_per_unit_measure),
}
_RANKS = re.compile(r"(?:top_|p@)(\d+)(_without_frequent)?")


def metric_columns(rows: pd.DataFrame, metric: str) -> Iterator[tuple[pd.DataFrame, Array, Measure]]:
    """Rows, values and measure of what the metric is by definition, as versions have written it.

    Rows that were ``not_scored`` are in no metric.
    """
    if "not_scored" in rows:
        rows = rows[rows["not_scored"].fillna("").eq("")].infer_objects()
    for column in (metric, *_MEANS.get(metric, ())):
        if column in rows and _is_number(rows[column]):
            kept = rows[rows[column].notna()] if "subtask" in rows else rows
            yield kept, _column(kept, column), mean_measure
            if "perplexity" in metric:  # lm-eval's, of summed log-probabilities
                yield kept, -_column(kept, column), perplexity_measure
    if "no_answer_probability" in rows:
        yield from _of_unanswerable(rows, metric)
    if metric == "failure_rate" and "correct" in rows:
        yield rows, 1.0 - rows[["correct"]].to_numpy(float), mean_measure
    if (rank := _RANKS.fullmatch(metric)) and "rank" in rows:
        kept = rows[~rows["by_frequency"].astype(bool)] if rank[2] else rows
        yield kept, (kept[["rank"]].to_numpy(float) <= int(rank[1])).astype(float), mean_measure
    if metric in _ENTITIES and set(_ENTITY_COLUMNS) <= set(rows):
        yield rows, rows[_ENTITY_COLUMNS].to_numpy(float), _ENTITIES[metric]
    unit, measure = _LOSSES.get(metric, (None, None))
    if measure is not None and "log_probability" in rows and (unit is None or unit in rows):
        loss = -_column(rows, "log_probability")
        yield rows, loss if unit is None else np.hstack([loss, _column(rows, unit)]), measure
    if metric == "accuracy" or metric in _PAIRED:
        yield from ((rows, values, of) for values, of in _from_labels(rows, metric))


def _of_unanswerable(rows: pd.DataFrame, metric: str) -> Iterator[tuple[pd.DataFrame, Array, Measure]]:
    """SQuAD v2's: one kind of question, or the best threshold."""
    kind, _, column = metric.partition("_")
    if kind in ("HasAns", "NoAns"):
        kept = rows[rows["has_answer"].astype(bool) == (kind == "HasAns")]
        yield kept, _column(kept, column), mean_measure
    if metric in ("best_exact", "best_f1"):
        names = [f"raw_{column}", "has_answer", "answered", "no_answer_probability"]
        yield rows, rows[names].to_numpy(float), threshold_measure


def _from_labels(rows: pd.DataFrame, metric: str) -> Iterator[tuple[Array, Measure]]:
    for predicted, gold in _LABELS:
        if predicted not in rows or gold not in rows:
            continue
        columns = label_codes(rows[predicted], rows[gold])
        if metric == "accuracy":
            yield (columns[:, :1] == columns[:, 1:]).astype(float), mean_measure
            continue
        yield columns, _PAIRED[metric]
        if metric == "f1" and not _is_number(rows[gold]):
            yield 1 - columns, f1_measure  # names do not say which class is 1


def label_codes(predicted: pd.Series[Any], gold: pd.Series[Any]) -> Array:
    """Two columns of numbers: numbers as they are, other labels by their place in sorted order."""
    columns = [pd.to_numeric(column, errors="coerce") for column in (predicted, gold)]
    if not any(column.isna().any() for column in columns):
        return np.stack([column.to_numpy(float) for column in columns], axis=1)
    names = [column.astype(str) for column in (predicted, gold)]
    codes = {name: code for code, name in enumerate(sorted(set(names[0]) | set(names[1])))}
    return np.stack([name.map(codes).to_numpy(float) for name in names], axis=1)


def _is_number(column: pd.Series[Any]) -> bool:
    return bool(pd.api.types.is_numeric_dtype(column)) or bool(pd.api.types.is_bool_dtype(column))


def _column(rows: pd.DataFrame, name: Any) -> Array:
    return rows[name].to_numpy(float)[:, None]


def not_scored(rows: pd.DataFrame) -> str | None:
    """How many pairs were too long for the model, and the reason given for the first; ``None`` if none was."""
    if "not_scored" not in rows:
        return None
    reasons = rows["not_scored"][rows["not_scored"].fillna("").ne("")]
    if reasons.empty:
        return None
    return f"{len(reasons)} of {counted(len(rows), 'pair')} too long for the model and not scored: {reasons.iloc[0]}"
