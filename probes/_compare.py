"""What every classifier is compared with, and its test items as a table."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool, Int

from probes._fit import fit_static
from probes._prepare import Prepared
from probes.controls import majority, permutation_p, word_identity
from probes.report import TestItems
from probes.settings import ProbeSettings
from workbench.shapes import Array

__all__ = ["baselines", "p_values", "seen_share", "test_items"]


def baselines(
    prepared: Prepared, settings: ProbeSettings, train: Array, test: Array
) -> dict[str, Bool[Array, " test"]]:
    """Whether each test item is right under what needs no layer: majority class, word identity, static embedding."""
    codes, truth = prepared.codes[train], prepared.codes[test]
    found = {
        "majority class": majority(codes, len(test)),
        "word identity": word_identity(prepared.types(train), codes, prepared.types(test)),
        "static embedding": fit_static(prepared, settings, train, test),
    }
    return {name: guess == truth for name, guess in found.items()}


def seen_share(prepared: Prepared, train: Array, test: Array) -> float:
    """The share of test items whose word type occurs in the training items."""
    known = set(prepared.types(train))
    return float(np.mean([name in known for name in prepared.types(test)]))


def p_values(best: Array, others: Mapping[str, Array], clusters: Array, seed: int) -> dict[str, float]:
    """Paired permutation tests of the best probe's correctness (item,) against each comparison's."""
    return {name: permutation_p(best - row, clusters, seed) for name, row in others.items()}


def test_items(prepared: Prepared, test: Array, predictions: Int[Array, "layer item"]) -> TestItems:
    """The test items with what was predicted of them."""
    data = prepared.data
    return TestItems(
        names=tuple(data.sentences[s].name or f"sentence {s}" for s in data.sentence_of[test]),
        texts=tuple(data.text(i) for i in test),
        labels=tuple(data.labels[i] for i in test),
        classes=prepared.classes,
        predictions=np.ascontiguousarray(predictions, dtype=np.int32),
    )
