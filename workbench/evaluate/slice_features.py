"""What items can be sliced by: length, label, word frequency, overlap of two texts, perplexity."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd

from workbench.shapes import Array

__all__ = ["slice_features", "text_columns"]

_NOT_TEXT = {
    *("id", "task", "target", "gold", "label", "answer", "predicted", "prediction", "cluster", "template"),
    *(
        "paradigm",
        "phenomenon",
        "group",
        "kind",
        "test",
        "capability",
        "prompt",
        "shots",
        "generated",
        "output",
    ),
}
_LABELS = ("label", "gold")
_CATEGORIES = ("phenomenon", "paradigm", "kind", "bias_type", "subject", "genre", "category", "relation")
_PAIR = ("first_text", "second_text")
_MOST_LABELS = 30
_WORD = re.compile(r"\w+")


def slice_features(examples: pd.DataFrame) -> pd.DataFrame:
    """One column a feature that the examples have, in words: each item's third by it, or its label.

    ``length`` counts the words of the text, of a pair those of its first text; ``frequency`` is the mean logarithm
    of how often an item's words occur in the texts of all items; ``overlap`` the share of the second text's words that
    the first has too; ``perplexity`` is exp of the mean loss of a token. A feature that is equal for all items is left
    out.
    """
    texts = text_columns(examples)
    words = {name: [_words(text) for text in examples[name]] for name in texts}
    joined = [[word for name in texts for word in words[name][i]] for i in range(len(examples))]
    found: dict[str, Any] = {}
    if texts:
        found["length"] = _thirds(np.array([len(item) for item in words[texts[0]]], float), "words")
        found["frequency"] = _thirds(_frequency(joined), "mean log count")
    if len(texts) > 1:
        pairs = zip(words[texts[0]], words[texts[1]], strict=True)
        found["overlap"] = _thirds(np.array([_overlap(a, b) for a, b in pairs]), "of the words")
    if {"log_probability", "tokens"} <= set(examples):
        tokens = np.maximum(examples["tokens"].to_numpy(float), 1)
        with np.errstate(over="ignore"):
            found["perplexity"] = _thirds(np.exp(-examples["log_probability"].to_numpy(float) / tokens), "")
    for name in _labels(examples):
        found[name if name in _CATEGORIES else "label"] = examples[name].astype(str).to_numpy()
    frame = pd.DataFrame(found, index=examples.index)
    return frame[[name for name in frame if frame[name].nunique() > 1]]


def text_columns(examples: pd.DataFrame) -> list[str]:
    """The columns that hold what the model read; of a pair its two texts, not the prompt made of them."""
    if set(_PAIR) <= set(examples) and examples[list(_PAIR)].notna().all(axis=None):
        return list(_PAIR)
    return [
        str(name)
        for name in examples
        if name not in _NOT_TEXT
        and all(isinstance(value, str) for value in examples[name])
        and np.mean([value.count(" ") for value in examples[name]] or [0]) >= 1
    ]


def _labels(examples: pd.DataFrame) -> list[str]:
    label = next((name for name in _LABELS if name in examples), None)
    names = [*([label] if label else []), *(name for name in _CATEGORIES if name in examples)]
    return [name for name in names if 1 < examples[name].astype(str).nunique() <= _MOST_LABELS]


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _frequency(items: list[list[str]]) -> Array:
    counts = Counter(word for item in items for word in item)
    return np.array([np.mean([np.log(counts[word]) for word in item]) if item else 0.0 for item in items])


def _overlap(first: list[str], second: list[str]) -> float:
    known = set(first)
    return float(np.mean([word in known for word in second])) if second else 0.0


def _thirds(values: Array, unit: str) -> Array:
    """Each item's third, named by the smallest and largest value in it; NaN where the value is not finite."""
    finite = np.isfinite(values)
    names = np.full(len(values), np.nan, dtype=object)
    if not finite.any():
        return names
    edges = np.unique(np.quantile(values[finite], [0, 1 / 3, 2 / 3, 1]))
    places = np.clip(np.searchsorted(edges, values[finite], side="left"), 1, max(len(edges) - 1, 1))
    part = values[finite]
    labels = {
        p: f"{part[places == p].min():.3g} to {part[places == p].max():.3g} {unit}".strip()
        for p in set(places)
    }
    names[finite] = [labels[p] for p in places]
    return names
