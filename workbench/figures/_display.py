"""What the page's word and sink switches do, in NumPy, for static figures; and the weights as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from workbench.figures._maps import AttentionMap, TokenAxis
from workbench.figures._packing import edges_kept, strongest_keys

__all__ = ["as_shown", "attention_frame"]


def as_shown(attention: AttentionMap, merge_words: bool, hide_sinks: bool) -> AttentionMap:
    """The map with sinks' columns set to zero (nothing is renormalised) and word pieces joined.

    Joining sums over the pieces attended to and averages over the pieces attending (Clark et al., 2019,
    "What does BERT look at?", section 4.1).
    """
    if hide_sinks:
        weights = attention.weights.copy()
        weights[..., list(attention.keys.sinks)] = 0.0
        attention = replace(attention, weights=weights)
    queries, keys = attention.queries, attention.keys
    if not merge_words or queries.groups is None or keys.groups is None:
        return attention
    query_starts, key_starts = (_starts(axis.groups) for axis in (queries, keys) if axis.groups is not None)
    pieces = np.diff([*query_starts, len(queries.groups)])
    sums = np.add.reduceat(attention.weights, key_starts, axis=-1)
    means = np.add.reduceat(sums, query_starts, axis=-2) / pieces[:, None]
    split = None if attention.split is None else queries.groups[attention.split]
    return replace(
        attention, weights=means, queries=_joined(queries), keys=_joined(keys), split=split or None
    )


def attention_frame(maps: Sequence[AttentionMap]) -> pd.DataFrame:
    """One row per edge: attention, layer, head, query, query_token, key, key_token, weight.

    Of a map too large to keep whole, only each query's strongest keys, as in the page.
    """
    return pd.concat([_one_frame(attention) for attention in maps], ignore_index=True)


def _one_frame(attention: AttentionMap) -> pd.DataFrame:
    weights = attention.weights
    kept = edges_kept(weights)
    if kept is None:
        layer, head, query, key = (axis.ravel() for axis in np.indices(weights.shape))
        values = weights.ravel()
    else:
        strongest = strongest_keys(weights, kept)
        layer, head, query, _ = (axis.ravel() for axis in np.indices(strongest.weight.shape))
        key, values = strongest.index.ravel(), strongest.weight.ravel()
    return pd.DataFrame(
        {
            "attention": attention.name,
            "layer": np.take(attention.layers, layer),
            "head": np.take(attention.heads, head),
            "query": query,
            "query_token": np.array(attention.queries.shown, dtype=object)[query],
            "key": key,
            "key_token": np.array(attention.keys.shown, dtype=object)[key],
            "weight": values,
        }
    )


def _starts(groups: Sequence[int]) -> list[int]:
    return [i for i, group in enumerate(groups) if i == 0 or group != groups[i - 1]]


def _joined(axis: TokenAxis) -> TokenAxis:
    return TokenAxis(shown=axis.group_names, groups=None, group_names=(), sinks=())
