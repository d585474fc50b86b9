"""Tokens coloured by a score each: blue for positive, vermillion for negative, clear at zero."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from markupsafe import Markup

from workbench.analysis.generation import Generation, GenerationStep
from workbench.errors import ConfigError, NumericsError
from workbench.figures._maps import shown_tokens
from workbench.figures._page import page
from workbench.figures._view import View
from workbench.figures.palette import NEGATIVE, POSITIVE
from workbench.shapes import Array
from workbench.terminal import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from workbench.scoring import Detection, Surprisal

__all__ = [
    "detection_view",
    "generation_view",
    "highlighted_text",
    "highlighted_texts",
    "step_view",
    "surprisal_view",
]

STRONGEST = 0.62  # opacity of the strongest colour, so that text stays readable on it
_MOST_TEXTS = 1000
_MOST_LINES = 115  # as many as the tallest figure, 40 inches, holds without overlap


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
    view = highlighted_texts(
        [tokens],
        [scores],
        prettify_tokens=prettify_tokens,
        limit=limit,
        unit=unit,
        note=note,
        title=title,
        display_mode=display_mode,
    )
    return replace(view, tabulate=lambda: view.to_frame().drop(columns="text"), height=260)


def highlighted_texts(
    texts: Sequence[Sequence[str]],
    scores: Sequence[Sequence[float] | Array],
    *,
    names: Sequence[str] | None = None,
    prettify_tokens: bool = True,
    limit: float | None = None,
    unit: str = "",
    note: str = "",
    title: str = "Token scores",
    display_mode: str = "auto",
) -> View:
    """As :func:`highlighted_text`, for several texts on one scale, each behind its name in ``names``.

    Raises:
        ConfigError: no text or more than 1,000; as many rows of scores and names as texts are needed, and as many
            scores as tokens, at least one.
        NumericsError: a score is NaN or infinite.

    Example:
        ```python
        import workbench

        texts, scores = [["a", "good", "film"], ["a", "bad", "film"]], [[0.0, 1.9, 0.2], [0.0, -2.3, 0.1]]
        print(workbench.figures.highlighted_texts(texts, scores, names=["first", "second"]).save("texts.html"))
        ```
    """
    if not 1 <= len(texts) <= _MOST_TEXTS:
        raise ConfigError(
            f"{len(texts):,} texts to draw; allowed: 1 to {_MOST_TEXTS:,} (--limit, or a slice)"
        )
    behind = names if names is not None else [""] * len(texts)
    if not len(texts) == len(scores) == len(behind):
        raise ConfigError(
            f"{len(texts)} texts, {len(scores)} rows of scores, {len(behind)} names; give as many of each"
        )
    values = [_checked(tokens, of_text) for tokens, of_text in zip(texts, scores, strict=True)]
    top = max(float(np.abs(of_text).max()) for of_text in values) if limit is None else limit
    shown = [
        _ScoredText(
            shown_tokens(tokens, prettify_tokens), _spaced(tokens, prettify_tokens), of_text, top or 1.0
        )
        for tokens, of_text in zip(texts, values, strict=True)
    ]
    frames = [
        pd.DataFrame({"text": number, "token": text.tokens, "score": text.scores})
        for number, text in enumerate(shown)
    ]
    return View(
        title=title,
        render=lambda: page(
            title=title, body=_paragraphs(shown, behind, title, unit, note), display_mode=display_mode
        ),
        draw=lambda: _drawn(shown, behind, title),
        tabulate=lambda: pd.concat(frames, ignore_index=True),
        latex=lambda: _latex_of(shown, behind),
        height=min(760, 180 + 40 * len(shown)),
    )


def _checked(tokens: Sequence[str], scores: Sequence[float] | Array) -> Array:
    values = np.asarray(scores, dtype=np.float64)
    if values.shape != (len(tokens),) or len(tokens) == 0:
        raise ConfigError(
            f"{len(tokens)} tokens with scores of shape {values.shape}; give one score per token"
        )
    if not np.isfinite(values).all():
        raise NumericsError(f"scores[{int(np.argmin(np.isfinite(values)))}] is NaN or infinite")
    return values


def surprisal_view(
    surprisal: Surprisal | Sequence[Surprisal], *, title: str | None = None, display_mode: str = "auto"
) -> View:
    """The texts, each token the darker the more bits it carries, on one scale; one that nothing predicts is clear.

    Raises :class:`~workbench.errors.ConfigError` for no text, or more than 1,000.
    """
    found = list(surprisal) if isinstance(surprisal, Sequence) else [surprisal]
    said = f"{sum(one.total for one in found):.1f} bits in all; {found[0].policy}" if found else ""
    return highlighted_texts(
        [one.tokens for one in found],
        [np.nan_to_num(one.bits) for one in found],
        names=[f"{one.total:.1f} bits" for one in found] if len(found) > 1 else None,
        unit="bits",
        note=said,
        title=title or (f"Surprisal in {found[0].model}" if found else ""),
        display_mode=display_mode,
    )


def detection_view(
    found: Detection | Sequence[Detection], *, title: str | None = None, display_mode: str = "auto"
) -> View:
    """The texts, each token the darker the more probably it was replaced, from 0 to 1; special tokens are clear.

    Raises :class:`~workbench.errors.ConfigError` for no text, or more than 1,000.
    """
    texts = list(found) if isinstance(found, Sequence) else [found]
    means = [f"mean log p(original) {one.mean_log_original:.3f}" for one in texts]
    return highlighted_texts(
        [one.tokens for one in texts],
        [np.nan_to_num(one.replaced) for one in texts],
        names=means if len(texts) > 1 else None,
        limit=1.0,
        unit="p(replaced)",
        note="; ".join([*means[: len(texts) == 1], texts[0].policy]) if texts else "",
        title=title or (f"Replaced tokens by {texts[0].model}" if texts else ""),
        display_mode=display_mode,
    )


def generation_view(
    found: Generation | Sequence[Generation], *, title: str | None = None, display_mode: str = "auto"
) -> View:
    """Generated texts side by side: each token the darker the more bits it took, and what else was likely.

    Raises :class:`~workbench.errors.ConfigError` where nothing was generated.
    """
    texts = [found] if isinstance(found, Generation) else list(found)
    if not any(one.steps for one in texts):
        raise ConfigError("nothing was generated: the first token ends the text")
    title = title or f"Generated by {texts[0].model}"
    shown = [(one, _of_steps(one)) for one in texts if one.steps]
    totals = [_total(one) if len(shown) > 1 else "" for one, _ in shown]
    frames = [one.to_frame().assign(text=n) for n, one in enumerate(texts)]
    return View(
        title=title,
        render=lambda: page(
            title=title,
            body=Markup("").join(_generated(one, text) for one, text in shown),
            display_mode=display_mode,
        ),
        draw=lambda: _drawn([text for _, text in shown], totals, title),
        tabulate=lambda: pd.concat(frames, ignore_index=True),
        latex=lambda: _latex_of([text for _, text in shown], totals),
        height=min(760, 320 * len(shown)),
    )


def _of_steps(found: Generation) -> _ScoredText:
    bits = -np.log2([max(step.probability, 1e-30) for step in found.steps])
    tokens = found.tokens
    return _ScoredText(shown_tokens(tokens, True), _spaced(tokens, True), bits, float(bits.max()) or 1.0)


def _generated(found: Generation, text: _ScoredText) -> Markup:
    rows = Markup("").join(
        Markup(
            '<tr><th scope="row">{}</th><td class="number">{:.3f}</td><td class="number">{:.2f}</td>'
            '<td class="number">{}</td><td>{}</td></tr>'
        ).format(token, step.probability, step.entropy, step.rank, _candidates(step))
        for token, step in zip(text.tokens, found.steps, strict=True)
    )
    table = Markup(
        "<table><thead><tr><th>token</th><th>probability</th><th>entropy (bits)</th><th>rank</th>"
        "<th>likeliest</th></tr></thead><tbody>{}</tbody></table>"
    ).format(rows)
    note = f"{_total(found)}, {counted(len(found.steps), 'token')}"
    return _paragraphs([text], [""], found.text, "bits", note) + table


def _total(found: Generation) -> str:
    worth = "" if found.reward is None else f"reward {found.reward:.4g}, "
    return f"{worth}log-probability {found.log_probability:.2f} nats"


def _candidates(step: GenerationStep) -> str:
    names = shown_tokens([token for token, _ in step.candidates], True)
    chosen = zip(names, step.candidates, strict=True)
    return ", ".join(f"{name} {probability:.2f}" for name, (_, probability) in chosen)


def _spaced(tokens: Sequence[str], prettify: bool) -> tuple[bool, ...]:
    """Whether a space belongs before each token, as the tokenizer's marks tell; everywhere without any."""
    marked = any(token.startswith(("Ġ", "▁", " ")) for token in tokens)
    if marked and prettify:
        return tuple(token.startswith(("Ġ", "▁", " ")) for token in tokens)
    return tuple(not (prettify and token.startswith("##")) for token in tokens)


_Placed = tuple[int, str, float, float]  # column, text, score, strength of the colour


@dataclass(frozen=True)
class _ScoredText:
    tokens: tuple[str, ...]
    spaced: tuple[bool, ...]
    scores: Array
    limit: float

    def strength(self, score: float) -> float:
        """Opacity of a score's colour."""
        return STRONGEST * min(1.0, abs(score) / self.limit)

    def _texts(self) -> list[str]:
        return [
            t if space else t.removeprefix("##") for t, space in zip(self.tokens, self.spaced, strict=True)
        ]

    def spans(self) -> Markup:
        """The coloured tokens, escaped."""
        return Markup("").join(
            Markup('{}<span title="{}: {:+.3g}" class="{}" style="--strength:{:.3f}">{}</span>').format(
                " " if space and i else "", text, score, _sign(score), self.strength(score) / STRONGEST, text
            )
            for i, (text, space, score) in enumerate(
                zip(self._texts(), self.spaced, self.scores, strict=True)
            )
        )

    def lines(self, width: int) -> list[list[_Placed]]:
        """The tokens over lines of at most ``width`` characters: column, text, score and strength of the colour."""
        lines: list[list[_Placed]] = [[]]
        column = 0
        for text, space, score in zip(self._texts(), self.spaced, self.scores, strict=True):
            column += int(space and column > 0)
            if column and column + len(text) > width:
                lines.append([])
                column = 0
            lines[-1].append((column, text, float(score), self.strength(score)))
            column += len(text)
        return lines

    def latex(self) -> str:
        """A paragraph of ``\\colorbox`` commands; needs the ``xcolor`` package."""
        boxes = []
        for text, space, score in zip(self._texts(), self.spaced, self.scores, strict=True):
            colour = f"{'positive' if score >= 0 else 'negative'}!{100 * self.strength(score):.0f}"
            boxes.append(f"{' ' if space else ''}\\colorbox{{{colour}}}{{\\strut {_latex(text)}}}")
        names = "".join(
            f"\\definecolor{{{name}}}{{HTML}}{{{value[1:]}}}\n"
            for name, value in (("positive", POSITIVE), ("negative", NEGATIVE))
        )
        return f"% \\usepackage{{xcolor}}\n{names}{{\\setlength{{\\fboxsep}}{{1pt}}%\n{''.join(boxes).strip()}}}\n"


def _paragraphs(
    texts: Sequence[_ScoredText], totals: Sequence[str], title: str, unit: str, note: str
) -> Markup:
    """The body of a page: each text behind what it comes to, one legend; tokens are escaped."""
    row = Markup('<p class="marked">{}{}</p>')
    behind = Markup('<span class="quiet">{}</span>&ensp;')
    rows = Markup("").join(
        row.format(behind.format(total) if total else "", text.spans())
        for text, total in zip(texts, totals, strict=True)
    )
    limit, has_negative = texts[0].limit, any((text.scores < 0).any() for text in texts)
    low, tint = (f"{-limit:+.3g}", "tint") if has_negative else ("0", "tint positive")
    legend = Markup('{}<span class="key {}"></span>{:+.3g} {}').format(low, tint, limit, unit)
    shape = '<article><h1>{}</h1><p class="quiet">{}</p>{}<p class="quiet">{}</p></article>'
    return Markup(shape).format(title, note, rows, legend)


def _latex_of(texts: Sequence[_ScoredText], names: Sequence[str]) -> str:
    """The paragraphs, each behind its name."""
    return "\n\\par\n".join(
        f"{_latex(name)}\\enspace\n{text.latex()}" if name else text.latex()
        for text, name in zip(texts, names, strict=True)
    )


def _named_lines(texts: Sequence[_ScoredText], names: Sequence[str]) -> list[list[_Placed]]:
    """The lines of all texts; a name has one of its own, above its text and without a colour."""
    lines: list[list[_Placed]] = []
    for text, name in zip(texts, names, strict=True):
        lines += [[(0, name, 0.0, 0.0)]] if name else []
        lines += text.lines(78)
    return lines


def _drawn(texts: Sequence[_ScoredText], names: Sequence[str], title: str) -> Figure:
    """The tokens of each line where they stand, each text below its name."""
    from workbench.figures.static import figure_of

    lines = _named_lines(texts, names)
    if len(lines) > _MOST_LINES:
        raise ConfigError(
            f"{len(lines):,} lines of text for one picture; allowed: {_MOST_LINES}; "
            "save as .html or .csv, or draw fewer texts (--limit, or a slice)"
        )
    figure = figure_of(7.0, 0.7 + 0.34 * len(lines), title)
    axes = figure.add_subplot()
    axes.set(xlim=(0, 80), ylim=(len(lines) - 0.4, -0.8))
    axes.axis("off")
    for row, line in enumerate(lines):
        for column, text, score, strength in line:
            face = (POSITIVE if score >= 0 else NEGATIVE, strength)
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
