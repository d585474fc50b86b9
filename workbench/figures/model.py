"""Model view: every layer and head at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from workbench.figures._display import as_shown, attention_frame
from workbench.figures._inputs import AttentionInputs, check_html_action
from workbench.figures._maps import AttentionMap, Stack, Words
from workbench.figures._page import attention_page
from workbench.figures._view import View, frame_height

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["model_view"]


def model_view(
    attention: Stack | None = None,
    tokens: Sequence[str] | None = None,
    sentence_b_start: int | None = None,
    prettify_tokens: bool = True,
    display_mode: str = "auto",
    encoder_attention: Stack | None = None,
    decoder_attention: Stack | None = None,
    cross_attention: Stack | None = None,
    encoder_tokens: Sequence[str] | None = None,
    decoder_tokens: Sequence[str] | None = None,
    include_layers: Sequence[int] | None = None,
    include_heads: Sequence[int] | None = None,
    html_action: str = "view",
    *,
    words: Words | None = None,
    encoder_words: Words | None = None,
    decoder_words: Words | None = None,
    merge_words: bool = False,
    hide_sinks: bool = False,
    title: str = "Attention, all layers and heads",
) -> View:
    """All layers (rows) by all heads (columns) as thumbnails, drawn when seen; choose one to read it.

    The positional arguments are BertViz's; ``words``, ``merge_words``, ``hide_sinks`` and the limits are
    those of :func:`head_view`. Each thumbnail is scaled to its own strongest weight. Texts of more than
    48 tokens start as heat maps (queries down, keys across), shorter ones as lines.

    Raises:
        ConfigError: shapes and tokens that do not fit, or more than 2,048 tokens.
        TraceError: layer or head out of range, weights outside 0..1, a layer without attention.
    """
    check_html_action(html_action)
    maps = AttentionInputs(
        attention=attention,
        tokens=tokens,
        encoder_attention=encoder_attention,
        decoder_attention=decoder_attention,
        cross_attention=cross_attention,
        encoder_tokens=encoder_tokens,
        decoder_tokens=decoder_tokens,
        words=words,
        encoder_words=encoder_words,
        decoder_words=decoder_words,
        sentence_b_start=sentence_b_start,
        prettify_tokens=prettify_tokens,
        include_layers=include_layers,
        include_heads=include_heads,
    ).maps()

    state = {"layer": 0, "head": 0, "words": merge_words, "sinks": hide_sinks}
    return View(
        title=title,
        render=lambda: attention_page(title, "model", ("bipartite", "matrix"), maps, state, display_mode),
        draw=lambda: _draw(as_shown(maps[0], merge_words, hide_sinks), title),
        tabulate=lambda: attention_frame(maps),
        height=frame_height(len(maps[0].layers), 90, 210),
    )


def _draw(attention: AttentionMap, title: str) -> Figure:
    from workbench.figures._static_attention import draw_model

    return draw_model(attention, title)
