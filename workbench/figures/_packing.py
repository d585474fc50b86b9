"""Attention as compact text inside a page: base64 of 8- or 16-bit weights, dense or strongest edges only."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.figures._maps import AttentionMap, TokenAxis
from workbench.shapes import Array, AttentionArray

__all__ = ["MAX_DENSE", "MAX_KEPT", "base64_of", "edges_kept", "map_record", "strongest_keys"]

MAX_FINE = 1_000_000
"""Up to this many weights are stored in 16 bits (steps of 0.000015), beyond it in 8 (0.004)."""
MAX_DENSE = 4_000_000
"""Up to this many weights (layers x heads x queries x keys) a view keeps every one."""
MAX_KEPT = 2_000_000
"""Edges that a view keeps beyond that: the strongest keys of each query."""


@dataclass(frozen=True)
class StrongestKeys:
    """Each query's strongest keys: ``index`` and ``weight``, both (layer, head, query, kept).

    ``share`` is the part of all attention that they carry.
    """

    index: Array
    weight: Array
    share: float


def edges_kept(weights: AttentionArray) -> int | None:
    """How many keys to keep of each query, or ``None`` where all fit."""
    if weights.size <= MAX_DENSE:
        return None
    rows = weights.shape[0] * weights.shape[1] * weights.shape[2]
    return int(np.clip(MAX_KEPT // rows, 1, weights.shape[3]))


def strongest_keys(weights: AttentionArray, kept: int) -> StrongestKeys:
    """The ``kept`` largest weights of each row, layer by layer to keep memory low."""
    index = np.empty((*weights.shape[:3], kept), dtype=np.uint16)
    weight = np.empty((*weights.shape[:3], kept), dtype=np.float32)
    for layer, values in enumerate(weights):
        top = np.argpartition(values, -kept, axis=-1)[..., -kept:]
        index[layer] = top
        weight[layer] = np.take_along_axis(values, top, axis=-1)
    return StrongestKeys(index, weight, float(weight.sum(dtype=np.float64) / weights.sum(dtype=np.float64)))


def map_record(attention: AttentionMap) -> dict[str, Any]:
    """What the page's script reads: tokens, numbering and packed weights (one string per layer)."""
    weights = attention.weights
    record: dict[str, Any] = {
        "name": attention.name,
        "layers": attention.layers,
        "heads": attention.heads,
        "shape": weights.shape[2:],
        "split": attention.split,
        "queries": _axis_record(attention.queries),
        "keys": _axis_record(attention.keys),
    }
    kept = edges_kept(weights)
    if kept is None:
        bits = 16 if weights.size <= MAX_FINE else 8
        return record | {
            "bits": bits,
            "kept": 0,
            "weights": [base64_of(_quantised(w, bits)) for w in weights],
        }
    strongest = strongest_keys(weights, kept)
    return record | {
        "bits": 8,
        "kept": kept,
        "share": round(strongest.share, 3),
        "weights": [base64_of(_quantised(w, 8)) for w in strongest.weight],
        "index": [base64_of(i) for i in strongest.index],
    }


def base64_of(array: Array) -> str:
    """The array's bytes, little-endian, as base64."""
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return base64.b64encode(np.ascontiguousarray(little).tobytes()).decode("ascii")


def _quantised(weights: Array, bits: int) -> Array:
    top = (1 << bits) - 1
    return np.rint(np.clip(weights, 0, 1) * top).astype(np.uint16 if bits == 16 else np.uint8)


def _axis_record(axis: TokenAxis) -> dict[str, Any]:
    return {"tokens": axis.shown, "groups": axis.groups, "words": axis.group_names, "sinks": axis.sinks}
