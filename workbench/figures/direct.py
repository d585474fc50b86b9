"""Direct logit attribution as a grid: layers down, heads and feed-forward part across."""

from __future__ import annotations

from workbench.figures._view import View
from workbench.figures.matrix import heat_map
from workbench.statistics import Statistic

__all__ = ["attribution_grid"]


def attribution_grid(shares: Statistic, *, title: str | None = None, display_mode: str = "auto") -> View:
    """What each head and feed-forward part adds to a logit; blue raises it, red lowers it, centred at zero.

    ``shares`` has axes ``layer`` and ``component``, as
    :meth:`~workbench.analysis.direct.DirectAttribution.statistic` gives them.
    """
    return heat_map(
        shares.values,
        rows=[f"layer {layer}" for layer in shares.labels["layer"]],
        columns=list(shares.labels["component"]),
        axes=("layer", "component"),
        unit=shares.unit,
        signed=True,
        note=shares.note,
        title=title or shares.name[:1].upper() + shares.name[1:],
        display_mode=display_mode,
    )
