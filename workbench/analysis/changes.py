"""The record of what training changed inside a model; ``workbench.changes`` makes it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from workbench.analysis.saliency import Attribution
from workbench.drawn import Drawn
from workbench.estimate import Estimate
from workbench.shapes import Array
from workbench.statistics import Statistic, student_interval
from workbench.terminal import counted

__all__ = ["Changes"]

_SUMMARY = (
    ("KL", "KL(after || before), nats a token", "only"),
    ("distance of weights", "weights, relative norm", "last"),
    ("CKA", "lowest CKA", "min"),
    ("attention divergence of layers", "largest attention divergence, bits", "max"),
    ("change of log-probability of the final token", "final token, change of log-probability", "last"),
)
_FEWEST = 3  # texts in which a word occurs, below which its mean attribution is not shown


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Changes(Drawn):
    """One model before training and one or more after it, compared over texts by layer, head and token.

    ``statistics`` are by name, with the axis ``model`` in front, and intervals over texts where they depend on texts.
    ``tokens`` has a row for each model after training and token, the largest KL first. ``saliency`` says which
    tokens a reward rests on, for some of the texts. ``notes`` say what was left out, and why.
    """

    drawn_by = "changes_view"

    before: str
    after: tuple[str, ...]
    texts: int
    statistics: Mapping[str, Statistic]
    tokens: pd.DataFrame = field(default_factory=pd.DataFrame)
    saliency: tuple[Attribution, ...] = ()
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Statistic:
        if name not in self.statistics:
            raise KeyError(f"no {name!r}; there are {', '.join(self.statistics)}")
        return self.statistics[name]

    def to_frame(self) -> pd.DataFrame:
        """One row a number: quantity, model, layer (as text), head, part, value, its error and interval, and unit."""
        frames = []
        for name, statistic in self.statistics.items():
            frame = statistic.to_frame()
            frame.insert(0, "quantity", name)
            frames.append(frame.assign(unit=statistic.unit))
        columns = [
            "quantity",
            "model",
            "layer",
            "head",
            "part",
            "value",
            "standard_error",
            "low",
            "high",
            "unit",
        ]
        if not frames:
            return pd.DataFrame(columns=columns)
        whole = pd.concat(frames, ignore_index=True).reindex(columns=columns)
        names = {name: whole[name].map(str, na_action="ignore") for name in ("layer", "part")}
        return whole.assign(**names, head=whole["head"].astype("Int64"))

    def summary(self) -> pd.DataFrame:
        """One row for each model after training and quantity: its value with its interval, and the layer it is of."""
        rows = []
        for name, shown, which in _SUMMARY:
            if name not in self.statistics:
                continue
            for place, model in enumerate(self.after):
                rows.append({"model": model, "quantity": shown, **_cell(self.statistics[name], place, which)})
        return pd.DataFrame(rows)

    def reward_words(self) -> pd.DataFrame:
        """The reward's mean attribution to each word that occurs in three texts or more, with its interval over texts.

        The largest magnitude first; case is ignored, and a word that a text has several times counts with its mean.
        """
        rows = []
        for number, found in enumerate(self.saliency):
            words = found.words()
            for word, score, counts in zip(words.tokens, words.scores, words.attributed, strict=True):
                if counts:
                    rows.append((number, word.lower(), float(score)))
        frame = pd.DataFrame(rows, columns=["text", "word", "score"])
        means = frame.groupby(["word", "text"], sort=False)["score"].mean()
        found_words = [
            {"word": word, **_numbers(_of_few(values.to_numpy())), "texts": len(values)}
            for word, values in means.groupby(level="word", sort=False)
            if len(values) >= _FEWEST
        ]
        shown = pd.DataFrame(found_words, columns=["word", "value", "low", "high", "texts"])
        return shown.sort_values("value", key=np.abs, ascending=False, ignore_index=True)

    def __repr__(self) -> str:
        return (
            f"<Changes from {self.before} to {', '.join(self.after)} over {counted(self.texts, 'text')}: "
            f"{', '.join(self.statistics)}>"
        )


def _cell(statistic: Statistic, place: int, which: str) -> dict[str, object]:
    """One number of a statistic for the model at ``place``: its only one, or of the lowest, highest or last layer."""
    values = statistic.values[place]
    layer = ""
    index: tuple[int, ...] = ()
    if which != "only":
        by_layer = values if values.ndim == 1 else values[:, 0]  # of several parts, that of all
        finite = np.where(np.isfinite(by_layer), by_layer, -np.inf if which == "max" else np.inf)
        row = (
            len(by_layer) - 1
            if which == "last"
            else int(finite.argmin() if which == "min" else finite.argmax())
        )
        layer, index = str(statistic.labels["layer"][row]), (row, *[0] * (values.ndim - 1))
    ends = [np.nan if part is None else float(part[place][index]) for part in (statistic.low, statistic.high)]
    return {"value": float(values[index]), "low": ends[0], "high": ends[1], "layer": layer}


def _of_few(values: Array) -> Estimate:
    """The mean with Student's interval: a bootstrap of three or six values is no guide."""
    error = float(values.std(ddof=1)) / math.sqrt(len(values))
    return student_interval(float(values.mean()), error, len(values), "Student's t, over texts")


def _numbers(estimate: Estimate) -> dict[str, float]:
    return {name: getattr(estimate, name) for name in ("value", "low", "high")}
