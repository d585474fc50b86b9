"""Generation step by step: what the model read when it wrote a token."""

from __future__ import annotations

import numpy as np

from workbench.analysis.generation import Generation
from workbench.errors import ConfigError
from workbench.figures._tokens import shown_tokens
from workbench.figures._view import View
from workbench.figures.text import highlighted_text

__all__ = ["step_view"]


def step_view(
    generation: Generation,
    step: int,
    *,
    layer: int | None = None,
    head: int | None = None,
    display_mode: str = "auto",
) -> View:
    """The text so far, coloured by the attention of one written token; mean over layers and heads left out.

    Raises :class:`~workbench.errors.ConfigError` for a step, layer or head out of range.
    """
    if not 0 <= step < len(generation.steps):
        raise ConfigError(f"step {step} is out of range: {len(generation.steps)} tokens were written")
    chosen = generation.steps[step]
    layers, heads = chosen.attention.shape[:2]
    for name, value, size in (("layer", layer, layers), ("head", head, heads)):
        if value is not None and not 0 <= value < size:
            raise ConfigError(f"{name} {value} is out of range: 0 to {size - 1}")
    part = chosen.attention if layer is None else chosen.attention[layer : layer + 1]
    part = part if head is None else part[:, head : head + 1]
    written = shown_tokens([chosen.token], prettify=True)[0]
    where = f"layer {'mean' if layer is None else layer}, head {'mean' if head is None else head}"
    return highlighted_text(
        chosen.read,
        np.asarray(part.mean((0, 1)), np.float64),
        unit="of the attention",
        note=f"{generation.attention_of}-attention, {where}, of the place that predicts {written!r}",
        title=f"Step {step + 1} of {len(generation.steps)}: {written!r}",
        display_mode=display_mode,
    )
