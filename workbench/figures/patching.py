"""Grids of interventions: layers down, positions or heads across."""

from __future__ import annotations

import numpy as np

from workbench.errors import ConfigError
from workbench.figures._maps import shown_tokens
from workbench.figures._view import View
from workbench.figures.matrix import heat_map
from workbench.statistics import Statistic

__all__ = ["attribution_grid", "patching_grid"]


def patching_grid(effects: Statistic, *, title: str | None = None, display_mode: str = "auto") -> View:
    """Effects by layer and position, head or component; blue brings the clean answer back, red takes it away.

    The scale is centred at zero and ends at 1 (the clean answer), or at the strongest effect if it is stronger.
    Positions are labelled with their tokens, ``clean|corrupted`` where the texts differ.

    Raises :class:`~workbench.errors.ConfigError` for a statistic that is not of layers by something.
    """
    if len(effects.axes) != 2 or effects.axes[0] != "layer":
        raise ConfigError(f"{effects.name}: a grid needs axes (layer, position or head), got {effects.axes}")
    across = effects.axes[1]
    limit = max(1.0, float(np.nanmax(np.abs(effects.values))))
    columns = [str(label) for label in effects.labels.get(across, range(effects.values.shape[1]))]
    if across == "position":
        columns = [_readable(label) for label in columns]
    return heat_map(
        effects.values,
        rows=[f"layer {layer}" for layer in effects.labels["layer"]],
        columns=columns if across != "head" else [f"head {head}" for head in columns],
        axes=("layer", across),
        unit="of the clean answer",
        signed=True,
        limits=(-limit, limit),
        standard_error=effects.standard_error,
        note=effects.note,
        title=title or effects.name[:1].upper() + effects.name[1:],
        display_mode=display_mode,
    )


def _readable(label: str) -> str:
    """``3 Ġkeys|Ġkey`` as ``3 keys|key``."""
    place, _, tokens = label.partition(" ")
    if not place.isdigit():
        return label
    both = tokens.split("|") if tokens.strip("|") else [tokens]
    return f"{place} {'|'.join(shown_tokens(both, prettify=True))}"


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
