"""Matplotlib without its global state: figures drawn and encoded under one lock, tokens never read as TeX."""

from __future__ import annotations

import io
import threading
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from matplotlib import font_manager, rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

__all__ = ["figure_of", "label_ticks", "rendered"]

_LOCK = threading.Lock()
_FONTS = (
    "DejaVu Sans",
    "Noto Sans CJK JP",
    "Noto Sans Arabic",
    "Noto Sans Devanagari",
    "Noto Emoji",
    "Symbola",
)
_METADATA = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}


def rendered(draw: Callable[[], Figure], form: str) -> bytes:
    """The drawn figure encoded as ``png``, ``svg`` or ``pdf``; the same figure gives the same bytes.

    SVG keeps text as text. A character that no installed font has is drawn as a box, without a warning.
    """
    buffer = io.BytesIO()
    settings: Any = {
        "svg.fonttype": "none",
        "svg.hashsalt": "workbench",
        "font.family": _fonts(),
        "font.size": 9,
    }
    with _LOCK, rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from font")
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support")
        draw().savefig(buffer, format=form, dpi=160, bbox_inches="tight", metadata=_METADATA[form])
    return buffer.getvalue()


def figure_of(width: float, height: float, title: str) -> Figure:
    """An empty figure of that size (inches, at most 40) with its title."""
    figure = Figure(figsize=(min(width, 40), min(height, 40)), layout="constrained", facecolor="white")
    figure.suptitle(title, fontsize=11, parse_math=False)
    return figure


def label_ticks(axes: Axes, rows: Sequence[str], columns: Sequence[str], limit: int = 80) -> None:
    """Name the rows and columns of a matrix, every n-th where there are more than ``limit``."""
    row_step, column_step = -(-len(rows) // limit), -(-len(columns) // limit)
    axes.set_yticks(range(0, len(rows), row_step), labels=rows[::row_step], parse_math=False)
    rotation = 0 if max(map(len, columns)) <= 3 else 90
    axes.set_xticks(
        range(0, len(columns), column_step),
        labels=columns[::column_step],
        rotation=rotation,
        parse_math=False,
    )
    axes.tick_params(length=0)


@cache
def _fonts() -> list[str]:
    installed = {font.name for font in font_manager.fontManager.ttflist}
    return [name for name in _FONTS if name in installed]
