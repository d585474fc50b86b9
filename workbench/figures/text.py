"""Tokens coloured by a score each: blue for positive, vermillion for negative, clear at zero."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from markupsafe import Markup

from workbench.analysis.generation import Generation
from workbench.errors import ConfigError, NumericsError
from workbench.figures._maps import shown_tokens
from workbench.figures._page import page
from workbench.figures._view import View
from workbench.figures.palette import NEGATIVE, POSITIVE
from workbench.shapes import Array
from workbench.terminal import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from workbench.scoring import Surprisal

__all__ = ["highlighted_text", "step_view", "surprisal_view"]

STRONGEST = 0.62


"""Opacity of the strongest colour, so that text stays readable on it."""


def highlighted_text(
    tokens: Sequence[str],
    scores: Sequence[float] | Array,
    *,
    prettify_tokens: bool = True,
    limit: float | None = None,
    unit: str = "",
    note: str = "",
    title: str = "Token scores",
    display_mode: str = "auto",
) -> View:
    """Text whose tokens are coloured by ``scores``, one each; also saves as LaTeX (``.tex``).

    The scale is centred at zero and ends at ``limit`` (by default the largest magnitude).

    Raises:
        ConfigError: as many scores as tokens are needed, and at least one.
        NumericsError: a score is NaN or infinite.

    Example:
        ```python
        import workbench

        view = workbench.figures.highlighted_text(["a", "wonderful", "film"], [0.0, 1.9, 0.2])
        print(view.save("text.html"))
        ```
    """
    values = np.asarray(scores, dtype=np.float64)
    if values.shape != (len(tokens),) or len(tokens) == 0:
        raise ConfigError(
            f"{len(tokens)} tokens with scores of shape {values.shape}; give one score per token"
        )
    if not np.isfinite(values).all():
        raise NumericsError(f"scores[{int(np.argmin(np.isfinite(values)))}] is NaN or infinite")
    top = float(np.abs(values).max()) if limit is None else limit
    text = _ScoredText(
        shown_tokens(tokens, prettify_tokens), _spaced(tokens, prettify_tokens), values, top or 1.0
    )
    return View(
        title=title,
        render=lambda: page(title=title, body=text.markup(title, unit, note), display_mode=display_mode),
        draw=lambda: text.draw(title),
        tabulate=lambda: pd.DataFrame({"token": text.tokens, "score": values}),
        latex=text.latex,
        height=260,
    )


def surprisal_view(surprisal: Surprisal, *, title: str | None = None, display_mode: str = "auto") -> View:
    """The text, each token the darker the more bits it carries; a token that nothing predicts is clear."""
    return highlighted_text(
        surprisal.tokens,
        np.nan_to_num(surprisal.bits),
        unit="bits",
        note=f"{surprisal.total:.1f} bits in all; {surprisal.policy}",
        title=title or f"Surprisal in {surprisal.model}",
        display_mode=display_mode,
    )


def _spaced(tokens: Sequence[str], prettify: bool) -> tuple[bool, ...]:
    """Whether a space belongs before each token, as the tokenizer's marks tell; everywhere without any."""
    marked = any(token.startswith(("Ġ", "▁", " ")) for token in tokens)
    if marked and prettify:
        return tuple(token.startswith(("Ġ", "▁", " ")) for token in tokens)
    return tuple(not (prettify and token.startswith("##")) for token in tokens)


@dataclass(frozen=True)
class _ScoredText:
    tokens: tuple[str, ...]
    spaced: tuple[bool, ...]
    scores: Array
    limit: float

    def _strength(self, score: float) -> float:
        return STRONGEST * min(1.0, abs(score) / self.limit)

    def _texts(self) -> list[str]:
        return [
            t if space else t.removeprefix("##") for t, space in zip(self.tokens, self.spaced, strict=True)
        ]

    def markup(self, title: str, unit: str, note: str) -> Markup:
        """The page's body; tokens are escaped."""
        spans = Markup("").join(
            Markup('{}<span title="{}: {:+.3g}" class="{}" style="--strength:{:.3f}">{}</span>').format(
                " " if space and i else "", text, score, _sign(score), self._strength(score) / STRONGEST, text
            )
            for i, (text, space, score) in enumerate(
                zip(self._texts(), self.spaced, self.scores, strict=True)
            )
        )
        legend = Markup('{:+.3g}<span class="key tint"></span>{:+.3g} {}').format(
            -self.limit, self.limit, unit
        )
        shape = '<article><h1>{}</h1><p class="quiet">{}</p><p class="marked">{}</p><p class="quiet">{}</p></article>'
        return Markup(shape).format(title, note, spans, legend)

    def draw(self, title: str) -> Figure:
        """The tokens flowing over lines of at most 78 characters."""
        from workbench.figures.static import figure_of

        lines = self._lines(78)
        figure = figure_of(7.0, 0.7 + 0.34 * len(lines), title)
        axes = figure.add_subplot()
        axes.set(xlim=(0, 80), ylim=(len(lines) - 0.4, -0.8))
        axes.axis("off")
        for row, line in enumerate(lines):
            for column, text, score in line:
                face = (POSITIVE if score >= 0 else NEGATIVE, self._strength(score))
                box = {"boxstyle": "round,pad=0.15", "facecolor": face, "edgecolor": "none"}
                axes.text(
                    column,
                    row,
                    text,
                    family="monospace",
                    fontsize=10,
                    va="center",
                    bbox=box,
                    parse_math=False,
                )
        return figure

    def _lines(self, width: int) -> list[list[tuple[int, str, float]]]:
        lines: list[list[tuple[int, str, float]]] = [[]]
        column = 0
        for text, space, score in zip(self._texts(), self.spaced, self.scores, strict=True):
            column += int(space and column > 0)
            if column and column + len(text) > width:
                lines.append([])
                column = 0
            lines[-1].append((column, text, float(score)))
            column += len(text)
        return lines

    def latex(self) -> str:
        """A paragraph of ``\\colorbox`` commands; needs the ``xcolor`` package."""
        boxes = []
        for text, space, score in zip(self._texts(), self.spaced, self.scores, strict=True):
            colour = f"{'positive' if score >= 0 else 'negative'}!{100 * self._strength(score):.0f}"
            boxes.append(f"{' ' if space else ''}\\colorbox{{{colour}}}{{\\strut {_latex(text)}}}")
        names = "".join(
            f"\\definecolor{{{name}}}{{HTML}}{{{value[1:]}}}\n"
            for name, value in (("positive", POSITIVE), ("negative", NEGATIVE))
        )
        return f"% \\usepackage{{xcolor}}\n{names}{{\\setlength{{\\fboxsep}}{{1pt}}%\n{''.join(boxes).strip()}}}\n"


def _sign(score: float) -> str:
    return "plus" if score >= 0 else "minus"


_LATEX = {c: f"\\{c}" for c in "&%$#_{}"} | {
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "<": "\\textless{}",
    ">": "\\textgreater{}",
}


def _latex(text: str) -> str:
    return "".join(_LATEX.get(c, c) for c in text)


def step_view(
    generation: Generation,
    step: int,
    *,
    layer: int | None = None,
    head: int | None = None,
    display_mode: str = "auto",
) -> View:
    """The text so far, coloured by the attention of one generated token; mean over layers and heads left out.

    Raises :class:`~workbench.errors.ConfigError` for a step, layer or head out of range.
    """
    if not 0 <= step < len(generation.steps):
        raise ConfigError(
            f"step {step} is out of range of {counted(len(generation.steps), 'generated token')}"
        )
    chosen = generation.steps[step]
    layers, heads = chosen.attention.shape[:2]
    for name, value, size in (("layer", layer, layers), ("head", head, heads)):
        if value is not None and not 0 <= value < size:
            raise ConfigError(f"{name} {value} is out of range: 0 to {size - 1}")
    part = chosen.attention if layer is None else chosen.attention[layer : layer + 1]
    part = part if head is None else part[:, head : head + 1]
    token = shown_tokens([chosen.token], prettify=True)[0]
    where = f"layer {'mean' if layer is None else layer}, head {'mean' if head is None else head}"
    return highlighted_text(
        chosen.read,
        np.asarray(part.mean((0, 1)), np.float64),
        unit="of the attention",
        note=f"{generation.attention_of}-attention, {where}, of the place that predicts {token!r}",
        title=f"Step {step + 1} of {len(generation.steps)}: {token!r}",
        display_mode=display_mode,
    )
