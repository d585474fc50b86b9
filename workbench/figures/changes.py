"""What training changed inside a model: a figure for each part, and all of them on one page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from workbench.analysis.changes import Changes
from workbench.errors import ConfigError
from workbench.figures._maps import shown_tokens
from workbench.figures._view import View
from workbench.figures.frames import table_view
from workbench.figures.matrix import head_statistics_grid, heat_map
from workbench.figures.plots import Curve, curve_plot
from workbench.figures.stacked import stacked_views
from workbench.figures.text import highlighted_texts
from workbench.shapes import Array
from workbench.statistics import Statistic
from workbench.terminal import counted

__all__ = ["changes_view", "changes_views"]

_TEXTS = 10  # drawn token by token
_TOKENS = 30  # of the largest divergence
_BANDS = "Bands are 95 % intervals."
_HEADS = ("attention divergence", "change of attention entropy", "change of attention distance")


def changes_view(found: Changes, *, title: str | None = None, display_mode: str = "auto") -> View:
    """All figures of a comparison on one self-contained page.

    Raises :class:`~workbench.errors.ConfigError` for a comparison in which everything was left out.
    """
    lines = [f"Before: {found.before}. After: {', '.join(found.after)}. {counted(found.texts, 'text')}."]
    page = stacked_views(
        changes_views(found, display_mode=display_mode),
        title=title or f"What changed inside {found.before}",
        note="\n".join([*lines, *found.notes]),
        display_mode=display_mode,
    )
    return replace(page, tabulate=found.to_frame)


def changes_views(found: Changes, *, display_mode: str = "auto") -> dict[str, View]:
    """The figures of a comparison by heading; a part that was left out has none."""
    drawn = {
        "Summary": _summary(found, display_mode),
        "Predictions: KL by token": _token_table(found, display_mode),
        "Predictions in the texts": _token_texts(found, display_mode),
        "States: CKA of each layer": _curves(found, ("CKA", "CKA of random pairs"), display_mode),
        "Weights": _weights(found, display_mode),
        "Logit lens: the final token": _curves(found, ("log-probability of the final token",), display_mode),
        "Logit lens: its change": _curves(
            found, ("change of log-probability of the final token",), display_mode
        ),
        "Logit lens: its rank": _curves(found, ("rank of the final token",), display_mode),
        "Attention: divergence by layer": _curves(found, ("attention divergence of layers",), display_mode),
        **{f"Heads: {name}": _heads(found, name, display_mode) for name in _HEADS},
        **{
            f"Probes: {name}": _curves(found, (name,), display_mode)
            for name in found.statistics
            if "of probes" in name
        },
        "Direction: separation of held-out texts": _curves(found, ("AUC of the direction",), display_mode),
        "Direction: change of separation": _curves(found, ("change of AUC",), display_mode),
        "Direction: cosine of before and after": _curves(found, ("cosine of directions",), display_mode),
        "Reward: words": _reward_words(found, display_mode),
        "Reward: texts": _reward_texts(found, display_mode),
    }
    views = {name: view for name, view in drawn.items() if view is not None}
    if not views:
        raise ConfigError(f"nothing could be compared: {'; '.join(found.notes) or 'no part was chosen'}")
    return views


def _summary(found: Changes, mode: str) -> View | None:
    frame = found.summary()
    if frame.empty:
        return None
    return table_view(
        frame, note="95 % intervals over texts; the weights have none.", title="Summary", display_mode=mode
    )


def _token_table(found: Changes, mode: str) -> View | None:
    changed = found.tokens[found.tokens["kl"] > 0] if len(found.tokens) else found.tokens
    if changed.empty:
        return None
    frame = changed[["model", "text", "position"]].head(_TOKENS).copy()
    for name in ("token", "kl", "before", "after", "next"):
        column = changed[name].head(_TOKENS)
        frame["KL, nats" if name == "kl" else name] = (
            column if name == "kl" else shown_tokens([str(token) for token in column], prettify=True)
        )
    note = (
        "KL(after || before) of what is predicted after the token. before, after: the likeliest token of each model; "
        "next: the one that follows."
    )
    return table_view(frame, note=note, title=f"The {len(frame)} tokens of the largest KL", display_mode=mode)


def _token_texts(found: Changes, mode: str) -> View | None:
    """The first texts, coloured by the divergence of the last model."""
    if found.tokens.empty:
        return None
    last = found.tokens["model"].iloc[_last_place(found)]
    rows = found.tokens[found.tokens["model"] == last].sort_values(["text", "position"])
    texts = [part for _, part in rows.groupby("text")][:_TEXTS]
    return highlighted_texts(
        [part["token"].tolist() for part in texts],
        [part["kl"].to_numpy() for part in texts],
        names=[f"text {part['text'].iloc[0]}" for part in texts],
        unit="nats",
        note=f"KL({last} || {found.before}) of what is predicted after each token.",
        title="KL by token",
        display_mode=mode,
    )


def _last_place(found: Changes) -> int:
    """The row of a token of the last model after training that has any."""
    order = {name: place for place, name in enumerate(found.after)}
    return int(found.tokens["model"].map(order).to_numpy().argmax())


def _curves(found: Changes, names: Sequence[str], mode: str) -> View | None:
    """A line over the layers for each model and each of the statistics ``names``, on one pair of axes."""
    statistics = [found.statistics[name] for name in names if name in found.statistics]
    if not statistics:
        return None
    first = statistics[0]
    if "rank" in first.name:
        statistics = [_logarithms(one) for one in statistics]
    curves = [curve for statistic in statistics for curve in _lines(statistic, len(names) > 1)]
    return curve_plot(
        curves,
        x="layer",
        y=statistics[0].unit,
        note=f"{first.note}. {_BANDS}" if first.note else _BANDS,
        title=first.name[:1].upper() + first.name[1:],
        display_mode=mode,
    )


def _logarithms(statistic: Statistic) -> Statistic:
    """The same on a scale of powers of ten."""
    low, high = (None if end is None else np.log10(end) for end in (statistic.low, statistic.high))
    values = np.log10(statistic.values)
    return replace(statistic, values=values, low=low, high=high, unit=f"log10 of {statistic.unit}")


def _lines(statistic: Statistic, named: bool) -> list[Curve]:
    models, layers = (statistic.labels[axis] for axis in statistic.axes)

    def row(values: Array | None, place: int) -> Array | None:
        return None if values is None else values[place]

    return [
        Curve(
            name=f"{model}: {statistic.name}" if named else str(model),
            x=[float(layer) for layer in layers],
            y=statistic.values[place],
            low=row(statistic.low, place),
            high=row(statistic.high, place),
        )
        for place, model in enumerate(models)
    ]


def _weights(found: Changes, mode: str) -> View | None:
    """Layers by parts for one model after training; for several, all weights of a layer by model."""
    statistic = found.statistics.get("distance of weights")
    if statistic is None:
        return None
    models, layers, parts = (statistic.labels[axis] for axis in statistic.axes)
    several = len(models) > 1
    percent = 100 * statistic.values[:, :-1]  # without the row of the whole model, which the summary has
    return heat_map(
        percent[:, :, 0].T if several else percent[0],
        rows=layers[:-1],
        columns=models if several else parts,
        axes=("layer", "model" if several else "part"),
        unit="% of the norm before",
        note=f"{statistic.note}. Blocks count from 0.",
        title="Distance of weights",
        display_mode=mode,
    )


def _heads(found: Changes, name: str, mode: str) -> View | None:
    """The heads of the last model after training."""
    statistic = found.statistics.get(name)
    if statistic is None:
        return None
    model = statistic.labels["model"][-1]
    error = statistic.standard_error
    last = Statistic(
        name=statistic.name,
        unit=statistic.unit,
        values=statistic.values[-1],
        axes=("layer", "head"),
        labels={axis: statistic.labels[axis] for axis in ("layer", "head")},
        standard_error=None if error is None else error[-1],
        note=f"{model}: {statistic.note}; standard errors over texts",
    )
    return head_statistics_grid(last, display_mode=mode)


def _reward_words(found: Changes, mode: str) -> View | None:
    frame = found.reward_words() if found.saliency else pd.DataFrame()
    if frame.empty:
        return None
    return table_view(
        frame.head(_TOKENS),
        interval=("value", "low", "high"),
        note=f"Mean attribution of {found.saliency[0].target} to a word, over the texts that have it; 95 % intervals.",
        title="What the reward rests on",
        display_mode=mode,
    )


def _reward_texts(found: Changes, mode: str) -> View | None:
    if not found.saliency:
        return None
    shown = found.saliency[:_TEXTS]
    return highlighted_texts(
        [one.tokens for one in shown],
        [np.asarray(one.scores) for one in shown],
        names=[f"text {number}: {one.value:.2f}" for number, one in enumerate(shown)],
        note=f"{shown[0].target} by {shown[0].method}, and its value of each text.",
        title="The reward's attribution",
        display_mode=mode,
    )
