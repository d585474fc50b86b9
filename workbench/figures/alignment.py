"""Alignment view: cross-attention as target tokens over source tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from workbench.figures._display import as_shown, attention_frame
from workbench.figures._inputs import AttentionInputs, check_html_action
from workbench.figures._maps import AttentionMap, Stack, Words, position_of
from workbench.figures._page import attention_page
from workbench.figures._view import View, frame_height

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["alignment_view"]


def alignment_view(
    cross_attention: Stack,
    encoder_tokens: Sequence[str],
    decoder_tokens: Sequence[str],
    prettify_tokens: bool = True,
    layer: int | None = None,
    head: int | None = None,
    include_layers: Sequence[int] | None = None,
    html_action: str = "view",
    *,
    encoder_words: Words | None = None,
    decoder_words: Words | None = None,
    merge_words: bool = False,
    hide_sinks: bool = False,
    mark_strongest: bool = True,
    display_mode: str = "auto",
    title: str = "Alignment: where each target token looks in the source",
) -> View:
    """Cross-attention as a matrix: target tokens down, source tokens across.

    ``cross_attention`` is a tuple with (1, head, target, source) per layer or one (layer, head, target,
    source) array. ``layer`` is shown first (the last where not given) with ``head`` or, where not given,
    the mean of the layer's heads. ``mark_strongest`` frames each row's largest cell. Words, sinks and
    limits are those of :func:`head_view`; only separators count as sinks here.

    Raises:
        ConfigError: shapes and tokens that do not fit, or more than 2,048 tokens.
        TraceError: layer or head out of range, weights outside 0..1, a layer without attention.
    """
    check_html_action(html_action)
    (cross,) = AttentionInputs(
        cross_attention=cross_attention,
        encoder_tokens=encoder_tokens,
        decoder_tokens=decoder_tokens,
        encoder_words=encoder_words,
        decoder_words=decoder_words,
        prettify_tokens=prettify_tokens,
        include_layers=include_layers,
    ).maps()
    at = len(cross.layers) - 1 if layer is None else position_of(layer, cross.layers, "layer")
    one = None if head is None else position_of(head, cross.heads, "head")
    state = {"layer": at, "head": one, "words": merge_words, "sinks": hide_sinks, "rings": mark_strongest}
    return View(
        title=title,
        render=lambda: attention_page(title, "alignment", ("matrix",), [cross], state, display_mode),
        draw=lambda: _draw(as_shown(cross, merge_words, hide_sinks), at, one, title),
        tabulate=lambda: attention_frame([cross]),
        height=frame_height(len(cross.queries.shown), 34, 330),
    )


def _draw(cross: AttentionMap, layer: int, head: int | None, title: str) -> Figure:
    from workbench.figures._static_attention import MatrixStyle, draw_matrix

    values = cross.weights[layer].mean(0) if head is None else cross.weights[layer, head]
    which = "mean of all heads" if head is None else f"head {cross.heads[head]}"
    style = MatrixStyle(
        (f"target · layer {cross.layers[layer]}, {which}", "source"), 0.0, float(values.max()), unit="weight"
    )
    return draw_matrix(values, cross.queries.shown, cross.keys.shown, style, title)
