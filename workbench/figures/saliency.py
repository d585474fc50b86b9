"""Drawings of attributions: text in colours, bars, methods side by side, generated tokens by source tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from workbench.errors import ConfigError
from workbench.figures._maps import shown_tokens
from workbench.figures._page import page
from workbench.figures._view import View, frame_height
from workbench.figures.matrix import heat_map
from workbench.figures.palette import NEGATIVE, POSITIVE
from workbench.figures.text import highlighted_text
from workbench.terminal import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from workbench.analysis.saliency import Attribution

__all__ = [
    "attribution_bars",
    "attribution_note",
    "attribution_view",
    "compare_attributions",
    "generation_map",
]


def attribution_note(attribution: Attribution) -> str:
    """What is needed to read the scores, in one paragraph."""
    said = [f"{attribution.target} = {attribution.value:.4g}"]
    if attribution.target_note:
        said.append(attribution.target_note)
    said.append(attribution.convention)
    if attribution.baseline is not None:
        said.append(f"baseline {attribution.baseline} (there {attribution.baseline_value:.4g})")
    if attribution.delta is not None:
        said.append(f"completeness delta {attribution.delta:+.2g}")
    if attribution.steps is not None:
        said.append(counted(attribution.steps, "step"))
    if attribution.layer is not None:
        said.append(f"layer {attribution.layer}")
    if attribution.seed is not None:
        said.append(f"seed {attribution.seed}")
    if attribution.aggregation is not None:
        said.append(f"pieces of a word: {attribution.aggregation}")
    if attribution.normalisation != "none":
        said.append(f"divided by their {attribution.normalisation}")
    if attribution.note:
        said.append(attribution.note)
    return "; ".join(said) + "."


def attribution_view(
    attribution: Attribution, *, title: str | None = None, display_mode: str = "auto"
) -> View:
    """The text with each token coloured by its score; values on hover. Saves as HTML, LaTeX, SVG and others."""
    return highlighted_text(
        attribution.tokens,
        attribution.scores,
        title=title or _title(attribution),
        note=attribution_note(attribution),
        prettify_tokens=attribution.level == "token",
        display_mode=display_mode,
    )


def attribution_bars(
    attribution: Attribution, *, title: str | None = None, display_mode: str = "auto"
) -> View:
    """A bar for each token, to the right for the target and to the left against it."""
    name = title or _title(attribution)
    tokens = shown_tokens(attribution.tokens, prettify=attribution.level == "token")
    top = float(np.abs(attribution.scores).max()) or 1.0
    return View(
        title=name,
        render=lambda: page(
            title=name, body=_bars(attribution, tokens, top, name), display_mode=display_mode
        ),
        draw=lambda: _draw_bars(attribution, tokens, name),
        tabulate=attribution.to_frame,
        height=frame_height(len(tokens), 24, 140),
    )


def compare_attributions(
    attributions: Sequence[Attribution],
    *,
    title: str = "Saliency methods side by side",
    display_mode: str = "auto",
) -> View:
    """Methods down, tokens across, each method's scores divided by their largest magnitude.

    Raises:
        ConfigError: none given, or of different tokens.
    """
    if not attributions or len({a.tokens for a in attributions}) > 1:
        raise ConfigError("methods side by side need at least one attribution, and all of the same tokens")
    first = attributions[0]
    columns = shown_tokens(first.tokens, prettify=first.level == "token")
    return heat_map(
        np.stack([a.normalised("max").scores for a in attributions]),
        [a.method for a in attributions],
        columns,
        axes=("method", "token"),
        unit="score / largest",
        signed=True,
        limits=(-1.0, 1.0),
        note=f"{first.target}. Each row is divided by its largest magnitude.",
        title=title,
        display_mode=display_mode,
    )


def generation_map(
    attributions: Sequence[Attribution],
    generated: Sequence[str],
    *,
    title: str = "What each generated token was made of",
    display_mode: str = "auto",
) -> View:
    """Generated tokens down; what they rest on across, then each token's probability and the entropy before it.

    ``attributions`` has one for each token of ``generated``. Of a decoder what a token rests on is the text and the
    tokens generated before it: cells of later ones stay empty.

    Raises:
        ConfigError: no attribution, not one a token, or of different sources.
    """
    sources = max((a.tokens for a in attributions), key=len, default=())
    if not sources:
        raise ConfigError("no generated token to draw; give one attribution for each, and one or more")
    if len(attributions) != len(generated) or any(a.tokens != sources[: len(a)] for a in attributions):
        raise ConfigError(
            f"{len(attributions)} attributions for {len(generated)} generated tokens: give one for each"
        )
    return heat_map(
        np.stack(
            [np.pad(a.scores, (0, len(sources) - len(a)), constant_values=np.nan) for a in attributions]
        ),
        shown_tokens(generated, prettify=True),
        shown_tokens(sources, prettify=True),
        axes=("generated", "source"),
        unit="score",
        beside=_certainty(attributions),
        signed=attributions[0].signed,
        note=f"{attributions[0].method}: {attributions[0].convention}. At the end of a row: "
        "the token's probability, and the entropy (bits) of what it was chosen from.",
        title=title,
        display_mode=display_mode,
    )


def _certainty(attributions: Sequence[Attribution]) -> dict[str, list[float]]:
    found = {"probability": [float(np.exp(a.value)) for a in attributions]}
    entropies = [a.entropy for a in attributions if a.entropy is not None]
    return {**found, "entropy": entropies} if len(entropies) == len(attributions) else found


def _title(attribution: Attribution) -> str:
    return f"{attribution.method} of {attribution.target}"


def _bars(attribution: Attribution, tokens: Sequence[str], top: float, title: str) -> Markup:
    line = Markup(
        '<tr title="{token}: {score:+.4g}"><th scope="row" style="text-align:right;font-weight:400">{token}</th>'
        '<td style="width:24em"><svg width="100%" height="14" viewBox="-100 0 200 14" '
        'preserveAspectRatio="none" aria-hidden="true"><rect x="{x:.2f}" y="1" width="{width:.2f}" height="12" '
        'fill="{fill}"/><path d="M0 0V14" stroke="currentColor" stroke-width=".6"/></svg></td>'
        "<td>{score:+.3g}</td></tr>"
    )
    rows = Markup("").join(
        line.format(
            token=token,
            score=score,
            x=min(0.0, 100 * score / top),
            width=100 * abs(score) / top,
            fill=POSITIVE if score >= 0 else NEGATIVE,
        )
        for token, score in zip(tokens, attribution.scores.tolist(), strict=True)
    )
    shape = '<article><h1>{}</h1><p class="quiet">{}</p><table>{}</table></article>'
    return Markup(shape).format(title, attribution_note(attribution), rows)


def _draw_bars(attribution: Attribution, tokens: Sequence[str], title: str) -> Figure:
    from workbench.figures.static import figure_of

    figure = figure_of(6.5, 0.9 + 0.22 * len(tokens), title)
    axes = figure.add_subplot()
    colours = [POSITIVE if score >= 0 else NEGATIVE for score in attribution.scores]
    axes.barh(range(len(tokens)), attribution.scores, color=colours)
    axes.set_yticks(range(len(tokens)), labels=tokens, parse_math=False)
    axes.invert_yaxis()
    axes.axvline(0, color="#444444", linewidth=0.8)
    axes.set_xlabel("score", parse_math=False)
    return figure
