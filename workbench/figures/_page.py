"""A self-contained page around one view's data: style, script and numbers inline, nothing fetched."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from jinja2 import Environment
from markupsafe import Markup

from workbench.errors import ConfigError
from workbench.figures._maps import AttentionMap, TokenAxis
from workbench.shapes import Array, AttentionArray

__all__ = [
    "MAX_DENSE",
    "MAX_KEPT",
    "attention_page",
    "base64_of",
    "check_choice",
    "edges_kept",
    "map_record",
    "page",
    "strongest_keys",
]

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
    """The ``kept`` weights of each row that are largest in magnitude, layer by layer to keep memory low."""
    index = np.empty((*weights.shape[:3], kept), dtype=np.uint16)
    weight = np.empty((*weights.shape[:3], kept), dtype=np.float32)
    for layer, values in enumerate(weights):
        top = np.argpartition(np.abs(values), -kept, axis=-1)[..., -kept:]
        index[layer] = top
        weight[layer] = np.take_along_axis(values, top, axis=-1)
    share = np.abs(weight).sum(dtype=np.float64) / np.abs(weights).sum(dtype=np.float64)
    return StrongestKeys(index, weight, float(share))


def map_record(attention: AttentionMap) -> dict[str, Any]:
    """What the page's script reads: tokens, numbering and packed weights (one string per layer)."""
    weights = attention.weights
    record: dict[str, Any] = {
        "name": attention.name,
        "layers": attention.layers,
        "heads": attention.heads,
        "shape": weights.shape[2:],
        "split": attention.split,
        "signed": attention.signed,
        "limit": attention.limit,
        "queries": _axis_record(attention.queries),
        "keys": _axis_record(attention.keys),
    }
    kept = edges_kept(weights)
    if kept is None:
        bits = 16 if weights.size <= MAX_FINE else 8
        return record | {
            "bits": bits,
            "kept": 0,
            "weights": [base64_of(_quantised(w, bits, attention)) for w in weights],
        }
    strongest = strongest_keys(weights, kept)
    return record | {
        "bits": 8,
        "kept": kept,
        "share": round(strongest.share, 3),
        "weights": [base64_of(_quantised(w, 8, attention)) for w in strongest.weight],
        "index": [base64_of(i) for i in strongest.index],
    }


def base64_of(array: Array) -> str:
    """The array's bytes, little-endian, as base64."""
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return base64.b64encode(np.ascontiguousarray(little).tobytes()).decode("ascii")


def _quantised(weights: Array, bits: int, attention: AttentionMap) -> Array:
    """Weights as whole numbers: 0 to the largest one, or signed ones around the middle."""
    top = (1 << bits) - 1
    numbers = np.clip(weights, 0, 1) * top
    if attention.signed:
        middle = top // 2
        numbers = middle + weights / attention.limit * middle
    return np.rint(numbers).astype(np.uint16 if bits == 16 else np.uint8)


def _axis_record(axis: TokenAxis) -> dict[str, Any]:
    return {"tokens": axis.shown, "groups": axis.groups, "words": axis.group_names, "sinks": axis.sinks}


DISPLAY_MODES = ("auto", "light", "dark")


_TEMPLATES = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)


def page(
    *,
    title: str,
    script: str | None = None,
    parts: tuple[str, ...] = (),
    data: Mapping[str, Any] | None = None,
    body: Markup | None = None,
    display_mode: str = "auto",
) -> str:
    """The HTML of one view.

    ``script`` names the view's JavaScript asset, ``parts`` those it builds on; ``data`` becomes JSON
    with every character escaped that could end the script element. ``display_mode`` is ``auto`` (the
    reader's preference), ``light`` or ``dark``.
    """
    check_choice(display_mode, DISPLAY_MODES, "display_mode")
    names = ("common", *parts, script) if script else ()
    return _TEMPLATES.from_string(asset("page.html")).render(
        title=title,
        display_mode=display_mode,
        style=Markup(asset("view.css")),
        script=Markup("\n".join(asset(f"{name}.js") for name in names)),
        data=Markup(_script_safe_json({"title": title, **(data or {})})),
        body=body or "",
    )


def attention_page(
    title: str,
    script: str,
    parts: tuple[str, ...],
    maps: Sequence[AttentionMap],
    state: Mapping[str, Any],
    mode: str,
) -> str:
    """The page of an attention view: its maps packed, and what it shows first."""
    data = {"maps": [map_record(attention) for attention in maps], "state": {"map": 0, **state}}
    return page(title=title, script=script, parts=parts, data=data, display_mode=mode)


def check_choice(value: str, allowed: tuple[str, ...], what: str) -> None:
    """Refuse a value outside ``allowed``, naming both."""
    if value not in allowed:
        raise ConfigError(f"{what}={value!r} is not one of {', '.join(map(repr, allowed))}")


@cache
def asset(name: str) -> str:
    """The text of a packaged asset."""
    return (files("workbench.figures") / "assets" / name).read_text(encoding="utf-8")


def _script_safe_json(data: Mapping[str, Any]) -> str:
    """ASCII JSON in which no markup can begin: ``<``, ``>`` and ``&`` become escapes."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
