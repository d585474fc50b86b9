"""Head statistics in plain NumPy loops over whole attention matrices: slow, and easy to check by eye."""

from __future__ import annotations

import math

import numpy as np


def one_text(weights, classes, causal, window=None):
    """Sums and counts of every statistic for one head (T, T), in the order of workbench's table.

    A query of a causal model sees the last ``window`` keys up to itself, all of them by default.
    """
    length = len(weights)
    sums, counts = np.zeros(12), np.zeros(12)
    for q in range(length):
        row = weights[q]
        entropy = -sum(w * math.log(w) for w in row if w > 0)
        visible = min(q + 1, window or length) if causal else length
        pairs = [
            (entropy, 1),
            (entropy / math.log(visible) if visible > 1 else 0, visible > 1),
            (max(row), 1),
            (sum(w * abs(q - k) for k, w in enumerate(row)), 1),
            (row[q - 1] if q > 0 else 0, q > 0),
            (row[q + 1] if q + 1 < length else 0, q + 1 < length),
            (row[q], 1),
            (row[0] if q > 0 else 0, q > 0),
            *((row @ classes[:, c], 1) for c in range(4)),
        ]
        for i, (value, counted) in enumerate(pairs):
            sums[i] += value
            counts[i] += counted
    return sums, counts


def statistics(attentions, classes, causal, windows=None):
    """Means (L, H, 12) and standard errors clustered by text, from each text's attention (L, H, T, T)."""
    layers, heads = attentions[0].shape[:2]
    values, errors = np.zeros((layers, heads, 12)), np.zeros((layers, heads, 12))
    for layer in range(layers):
        for head in range(heads):
            parts = [
                one_text(a[layer, head].astype(float), c, causal, windows and windows[layer])
                for a, c in zip(attentions, classes, strict=True)
            ]
            x, n = np.array([p[0] for p in parts]), np.array([p[1] for p in parts])
            ratio = x.sum(0) / n.sum(0)
            count = len(parts)
            residual = ((x - ratio * n) ** 2).sum(0)
            values[layer, head] = ratio
            errors[layer, head] = np.sqrt(count / (count - 1) * residual) / n.sum(0)
    return values, errors
