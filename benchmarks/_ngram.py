"""An interpolated Kneser-Ney model of token sequences, in NumPy, as a baseline for language models.

Kneser & Ney 1995; Chen & Goodman 1999, "An empirical study of smoothing techniques for language modeling", section
2.7, equation 26: one discount an order, estimated as n1 / (n1 + 2 n2) from the n-grams seen once and twice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass
class _Order:
    """The n-grams of one order: sorted keys (history id times vocabulary plus token) and their counts."""

    keys: np.ndarray
    counts: np.ndarray
    discount: float
    totals: np.ndarray  # of each history
    kinds: np.ndarray  # different tokens after each history


class KneserNey:
    """``order`` tokens at most are looked at; the shortest history backs off to equal chances."""

    def __init__(self, ids: np.ndarray, vocabulary: int, order: int = 5) -> None:
        self.vocabulary = vocabulary
        self.orders: list[_Order] = []
        history = np.zeros(len(ids), dtype=np.int64)  # id of the (n-1)-gram before each place
        found: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = []
        grams = np.asarray(ids, dtype=np.int64)
        for start in range(order):
            keys = history[start:] * vocabulary + grams[start:]
            unique, first, inverse, counts = np.unique(
                keys, return_index=True, return_inverse=True, return_counts=True
            )
            named = np.full(len(grams), -1, dtype=np.int64)
            named[start:] = inverse
            found.append((unique, first + start, named, counts))
            history = np.concatenate(([0], named[:-1]))
        for n, (unique, _, named, counts) in enumerate(found):
            if n + 1 < order:  # a shorter n-gram counts by how many different tokens stand before it
                places = found[n + 1][1]
                counts = np.bincount(named[places], minlength=len(unique))
            self.orders.append(self._order(unique, counts, len(found[n - 1][0]) if n else 1))

    def _order(self, keys: np.ndarray, counts: np.ndarray, histories: int) -> _Order:
        once, twice = int((counts == 1).sum()), int((counts == 2).sum())
        discount = once / (once + 2 * twice) if once else 0.0
        before = keys // self.vocabulary
        totals = np.bincount(before, weights=counts, minlength=histories)
        kinds = np.bincount(before, weights=counts > 0, minlength=histories)
        return _Order(keys, counts, discount, totals, kinds)

    def log2_probabilities(self, ids: np.ndarray) -> np.ndarray:
        """Of each token given those before it: (T,)."""
        ids = np.asarray(ids, dtype=np.int64)
        probability = np.full(len(ids), 1.0 / self.vocabulary)
        history = np.zeros(len(ids), dtype=np.int64)
        known = np.ones(len(ids), dtype=bool)  # whether the history was seen
        for n, order in enumerate(self.orders):
            if n:
                known[:n] = False
            keys = history * self.vocabulary + ids
            places = np.searchsorted(order.keys, keys).clip(max=len(order.keys) - 1)
            seen = known & (order.keys[places] == keys)
            total = np.where(known, order.totals[np.where(known, history, 0)], 0.0)
            usable = total > 0
            counts = np.where(seen, order.counts[places], 0)
            kept = np.maximum(counts - order.discount, 0.0)
            rest = order.discount * np.where(usable, order.kinds[np.where(known, history, 0)], 0.0)
            divisor = np.where(usable, total, 1.0)
            probability = np.where(usable, (kept + rest * probability) / divisor, probability)
            known = np.concatenate(([False], seen[:-1]))
            history = np.concatenate(([0], np.where(seen, places, 0)[:-1]))
        return np.log2(probability)
