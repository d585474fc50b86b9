"""Colours that readers with any colour vision can tell apart (Okabe & Ito, 2008), and two scales of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from matplotlib.colors import LinearSegmentedColormap

__all__ = ["NEGATIVE", "OKABE_ITO", "POSITIVE", "Dash", "diverging", "head_style", "sequential"]

OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#B5A300")
"""The eight colours in the order used here; yellow comes last, darkened so that it shows on white."""

Dash: TypeAlias = tuple[float, tuple[float, ...]]
"""A matplotlib line style: offset, then lengths on and off; no lengths is a solid line."""

POSITIVE, NEGATIVE = "#0072B2", "#D55E00"
_DASHES: tuple[Dash, ...] = ((0, ()), (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))


def head_style(head: int) -> tuple[str, Dash]:
    """Colour and matplotlib line style of a head: colours repeat after eight with another dash."""
    return OKABE_ITO[head % 8], _DASHES[(head // 8) % 4]


def sequential() -> LinearSegmentedColormap:
    """White to dark blue, for values from zero up."""
    return _colour_map("sequential", ["#ffffff", "#a9cfe8", POSITIVE, "#00304d"])


def diverging() -> LinearSegmentedColormap:
    """Vermillion through white to blue, for signed values centred at zero."""
    return _colour_map("diverging", ["#7a3500", NEGATIVE, "#ffffff", POSITIVE, "#00304d"])


def _colour_map(name: str, colours: list[str]) -> LinearSegmentedColormap:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list(name, colours)
