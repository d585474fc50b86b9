"""Attention between tokens: the head view, the model view, and the alignment of target and source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from workbench.figures._inputs import AttentionInputs, as_shown, attention_frame, check_html_action
from workbench.figures._maps import AttentionMap, Stack, Words, position_of
from workbench.figures._page import attention_page
from workbench.figures._view import View, frame_height

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["alignment_view", "head_view", "model_view"]


def head_view(
    attention: Stack | None = None,
    tokens: Sequence[str] | None = None,
    sentence_b_start: int | None = None,
    prettify_tokens: bool = True,
    layer: int | None = None,
    heads: Sequence[int] | None = None,
    encoder_attention: Stack | None = None,
    decoder_attention: Stack | None = None,
    cross_attention: Stack | None = None,
    encoder_tokens: Sequence[str] | None = None,
    decoder_tokens: Sequence[str] | None = None,
    include_layers: Sequence[int] | None = None,
    html_action: str = "view",
    *,
    include_heads: Sequence[int] | None = None,
    words: Words | None = None,
    encoder_words: Words | None = None,
    decoder_words: Words | None = None,
    merge_words: bool = False,
    hide_sinks: bool = False,
    signed: bool = False,
    display_mode: str = "auto",
    title: str = "Attention, head by head",
) -> View:
    """Attention of one layer as lines from attending tokens (left) to tokens attended to (right).

    The positional arguments are BertViz's. Attention is a tuple with (1, head, query, key) per layer or one (layer,
    head, query, key) array, of one text, softmaxed, padding removed. ``layer`` and ``heads`` are shown first (the first
    layer; all heads); ``include_heads`` are the only ones in the view.

    Args:
        words: word number per token (``BatchEncoding.word_ids()``); gives the word / sub-word switch.
        merge_words: start with word pieces joined: sum over pieces attended to, mean over attending.
        hide_sinks: start without attention to the first token and separators; nothing is renormalised.
        signed: weights may be negative or above 1, as Linformer's are by design; colours show the sign, not the head.
        display_mode: ``auto`` (the reader's preference), ``light`` or ``dark``.

    Weights are stored in 16 bits, beyond a million in 8 (steps of 0.004). Up to 4 million are kept whole, beyond that
    the strongest keys of each query; 2,500 lines are drawn at once. The view says where this applies.

    Raises:
        ConfigError: shapes and tokens that do not fit, or more than 2,048 tokens.
        TraceError: layer or head out of range, weights outside 0..1, a layer without attention.

    Example:
        ```python
        import workbench

        text = workbench.trace("novels-encoder", "The keys to the cabinet are here.")[0]
        view = workbench.figures.head_view(text.attention, text.tokens, words=text.alignment.word_ids)
        print(view.save("heads.html"))
        ```
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
        signed=signed,
    ).maps()
    first = _shown_first(maps[0], layer, heads)
    return _heads_shown(maps, first, merge_words, hide_sinks, display_mode, title)


def _heads_shown(
    maps: Sequence[AttentionMap],
    first: tuple[int, list[int]],
    merge_words: bool,
    hide_sinks: bool,
    display_mode: str,
    title: str,
) -> View:
    at, active = first
    state = {"layer": at, "heads": active, "words": merge_words, "sinks": hide_sinks}
    return View(
        title=title,
        render=lambda: attention_page(title, "head", ("bipartite",), maps, state, display_mode),
        draw=lambda: _draw_heads(as_shown(maps[0], merge_words, hide_sinks), at, active, title),
        tabulate=lambda: attention_frame(maps),
        height=frame_height(max(maps[0].weights.shape[2:]), 26, 260),
    )


def _shown_first(
    attention: AttentionMap, layer: int | None, heads: Sequence[int] | None
) -> tuple[int, list[int]]:
    """The places of a layer (the first by default) and of heads (all) in the map."""
    at = position_of(attention.layers[0] if layer is None else layer, attention.layers, "layer")
    return at, [
        position_of(h, attention.heads, "head") for h in (attention.heads if heads is None else heads)
    ]


def _draw_heads(attention: AttentionMap, layer: int, heads: Sequence[int], title: str) -> Figure:
    from workbench.figures._static_attention import draw_head

    return draw_head(attention, layer, heads, title)


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
    signed: bool = False,
    title: str = "Attention, all layers and heads",
) -> View:
    """All layers (rows) by all heads (columns) as thumbnails, drawn when seen; choose one to read it.

    The positional arguments are BertViz's; ``words``, ``merge_words``, ``hide_sinks``, ``signed`` and the limits are
    those of :func:`head_view`. Each thumbnail is scaled to its own strongest weight. Texts of more than
    48 tokens start as heat maps (queries down, keys across), shorter ones as lines.

    Raises:
        ConfigError: shapes and tokens that do not fit, or more than 2,048 tokens.
        TraceError: layer or head out of range, weights outside 0..1, a layer without attention.

    Example:
        ```python
        import workbench

        text = workbench.trace("novels-encoder", "The keys to the cabinet are here.")[0]
        view = workbench.figures.model_view(text.attention, text.tokens)
        print(view.save("model.html"))
        ```
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
        signed=signed,
    ).maps()

    state = {"layer": 0, "head": 0, "words": merge_words, "sinks": hide_sinks}
    return View(
        title=title,
        render=lambda: attention_page(title, "model", ("bipartite", "matrix"), maps, state, display_mode),
        draw=lambda: _draw_model(as_shown(maps[0], merge_words, hide_sinks), title),
        tabulate=lambda: attention_frame(maps),
        height=frame_height(len(maps[0].layers), 90, 210),
    )


def _draw_model(attention: AttentionMap, title: str) -> Figure:
    from workbench.figures._static_attention import draw_model

    return draw_model(attention, title)


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
        draw=lambda: _draw_alignment(as_shown(cross, merge_words, hide_sinks), at, one, title),
        tabulate=lambda: attention_frame([cross]),
        height=frame_height(len(cross.queries.shown), 34, 330),
    )


def _draw_alignment(cross: AttentionMap, layer: int, head: int | None, title: str) -> Figure:
    from workbench.figures._static_attention import MatrixStyle, draw_matrix

    values = cross.weights[layer].mean(0) if head is None else cross.weights[layer, head]
    which = "mean of all heads" if head is None else f"head {cross.heads[head]}"
    style = MatrixStyle(
        (f"target · layer {cross.layers[layer]}, {which}", "source"), 0.0, float(values.max()), unit="weight"
    )
    return draw_matrix(values, cross.queries.shown, cross.keys.shown, style, title)
