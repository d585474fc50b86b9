"""Neuron view: a query vector against every key vector, element by element."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from workbench.errors import ConfigError, NumericsError, TraceError
from workbench.figures._inputs import AttentionInputs, check_html_action
from workbench.figures._maps import AttentionMap, Stack, as_stack, position_of
from workbench.figures._page import base64_of, map_record, page
from workbench.figures._view import View, frame_height
from workbench.shapes import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["neuron_view"]

MAX_VALUES = 20_000_000
"""Most query and key components (layers x heads x tokens x width, both) in one view: a 53 MB page."""


def neuron_view(
    queries: Stack,
    keys: Stack,
    attention: Stack,
    tokens: Sequence[str],
    layer: int | None = None,
    head: int | None = None,
    query: int | None = None,
    prettify_tokens: bool = True,
    include_layers: Sequence[int] | None = None,
    html_action: str = "view",
    *,
    display_mode: str = "auto",
    title: str = "Queries and keys, dimension by dimension",
) -> View:
    """How q · k comes about: each key vector, its element-wise product with one query, the sum, the weight.

    ``queries`` and ``keys`` are tuples with (1, head, token, width) per layer or (layer, head, token,
    width) arrays, as they enter the dot product (after any rotation); fewer key than query heads
    (grouped-query attention) are repeated. ``attention`` is what the model made of them: the view does
    not redo its scaling, mask or softmax. ``layer``, ``head`` and ``query`` (a position; the middle token
    where not given) are shown first. Saves as CSV the products' sums and weights of that layer and head.

    Raises:
        ConfigError: shapes that do not fit, too many tokens, or more than 20 million components.
        TraceError: layer, head or query out of range, or a layer without vectors.
    """
    check_html_action(html_action)
    (attended,) = AttentionInputs(
        attention=attention, tokens=tokens, prettify_tokens=prettify_tokens, include_layers=include_layers
    ).maps()
    q, k = _vectors(queries, keys, attended, include_layers)
    count = len(attended.queries.shown)
    spot = count // 2 if query is None else query
    if not 0 <= spot < count:
        raise TraceError(f"query {query} is out of range; the text has tokens 0 to {count - 1}")
    at = 0 if layer is None else position_of(layer, attended.layers, "layer")
    one = 0 if head is None else position_of(head, attended.heads, "head")
    shown = _Shown(q, k, attended, at, one, spot, title)
    return View(
        title=title,
        render=lambda: page(
            title=title, script="neuron", parts=("matrix",), data=shown.record(), display_mode=display_mode
        ),
        draw=shown.draw,
        tabulate=shown.frame,
        height=frame_height(count, 24, 360),
    )


@dataclass(frozen=True)
class _Shown:
    """Vectors (layer, head, token, width) with the attention they led to, and what is shown first."""

    queries: Array
    keys: Array
    attention: AttentionMap
    layer: int
    head: int
    query: int
    title: str

    def record(self) -> dict[str, Any]:
        """What the page's script reads."""
        return {
            "maps": [map_record(self.attention)],
            "width": self.queries.shape[-1],
            "queries": _signed_record(self.queries),
            "keys": _signed_record(self.keys),
            "state": {"map": 0, "layer": self.layer, "head": self.head, "query": self.query},
        }

    def draw(self) -> Figure:
        """One query against all keys, by matplotlib."""
        from workbench.figures._static_attention import draw_neurons

        q, k = self.queries[self.layer, self.head, self.query], self.keys[self.layer, self.head]
        weights = self.attention.weights[self.layer, self.head, self.query]
        tokens = self.attention.keys.shown
        where = f"layer {self.attention.layers[self.layer]}, head {self.attention.heads[self.head]}"
        return draw_neurons(q, k, (k @ q, weights), (tokens[self.query], tokens), f"{self.title} · {where}")

    def frame(self) -> pd.DataFrame:
        """Dot products and weights of the shown layer and head, one row per query and key."""
        dots = self.queries[self.layer, self.head] @ self.keys[self.layer, self.head].T
        query, key = (axis.ravel() for axis in np.indices(dots.shape))
        tokens = np.array(self.attention.keys.shown, dtype=object)
        weights = self.attention.weights[self.layer, self.head].ravel()
        columns = {"query": query, "query_token": tokens[query], "key": key, "key_token": tokens[key]}
        return pd.DataFrame({**columns, "q_dot_k": dots.ravel(), "weight": weights})


def _vectors(
    queries: Stack, keys: Stack, attention: AttentionMap, include_layers: Sequence[int] | None
) -> tuple[Array, Array]:
    q, _ = as_stack(queries, "queries", include_layers)
    k, _ = as_stack(keys, "keys", include_layers)
    if k.shape[1] and q.shape[1] % k.shape[1] == 0:
        k = np.repeat(k, q.shape[1] // k.shape[1], axis=1)
    expected = attention.weights.shape[:3]
    if q.shape != k.shape or q.shape[:3] != expected:
        raise ConfigError(
            f"queries {q.shape} and keys {k.shape} must both be (layer, head, token, width) with "
            f"{expected} first, as the attention has; record all three in one pass"
        )
    if not (np.isfinite(q).all() and np.isfinite(k).all()):
        raise NumericsError("queries or keys have NaN or infinite components; run `workbench doctor`")
    if q.size + k.size > MAX_VALUES:
        raise ConfigError(
            f"{q.size + k.size:,} query and key components are too many for one view, which takes at most "
            f"{MAX_VALUES:,}; choose layers with include_layers="
        )
    return q, k


def _signed_record(vectors: Array) -> dict[str, Any]:
    """16-bit integers per layer, with one scale per head."""
    scales = np.abs(vectors).max(axis=(2, 3)) / 32767
    scales[scales == 0] = 1.0
    packed = np.rint(vectors / scales[:, :, None, None]).astype(np.int16)
    return {"values": [base64_of(layer) for layer in packed], "scales": scales.astype(float).tolist()}
