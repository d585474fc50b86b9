"""What an accuracy has to be compared with: control tasks, baselines and permutation tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from workbench.shapes import Array

__all__ = ["control_labels", "majority", "permutation_p", "word_identity"]


def control_labels(types: Sequence[str], codes: Int[Array, " item"], seed: int) -> Int[Array, " item"]:
    """A random label for each word type, drawn from the labels' own frequencies (Hewitt & Liang 2019).

    Every occurrence of a type has its label, so it can only be memorised. A span, a pair of words or a sentence is a
    type by all its words; the paper's control for pairs, dependency arcs, draws a rule of attachment instead.
    """
    counts = np.bincount(codes[codes >= 0])
    names = {name: k for k, name in enumerate(dict.fromkeys(types))}
    drawn = np.random.default_rng(seed).choice(len(counts), size=len(names), p=counts / counts.sum())
    found: Array = drawn[[names[name] for name in types]]
    return found


def majority(codes: Int[Array, " train"], count: int) -> Int[Array, " test"]:
    """The commonest training label, ``count`` times."""
    return np.full(count, np.bincount(codes).argmax())


def word_identity(
    train_types: Sequence[str], codes: Int[Array, " train"], test_types: Sequence[str]
) -> Int[Array, " test"]:
    """The commonest training label of each test item's type; for a type never seen the commonest of all."""
    counts: dict[str, Counter[int]] = {}
    for name, code in zip(train_types, codes.tolist(), strict=True):
        counts.setdefault(name, Counter())[code] += 1
    best = {name: found.most_common(1)[0][0] for name, found in counts.items()}
    default = int(np.bincount(codes).argmax())
    return np.array([best.get(name, default) for name in test_types])


def permutation_p(
    difference: Float[Array, " item"], clusters: Int[Array, " item"], seed: int, permutations: int = 2000
) -> float:
    """Two-sided p of a paired permutation test: the signs of whole clusters' differences are drawn at random."""
    sums = np.bincount(np.unique(clusters, return_inverse=True)[1], weights=difference)
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], size=(permutations, len(sums)))
    extreme = np.abs(signs @ sums) >= abs(sums.sum()) - 1e-9
    return float((extreme.sum() + 1) / (permutations + 1))
