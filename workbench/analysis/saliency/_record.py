"""The result: a score for each token or word of one text, with everything needed to read it."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from workbench.analysis.attention import word_groups
from workbench.choices import as_members, member
from workbench.drawn import Drawing, Drawn
from workbench.errors import ConfigError
from workbench.shapes import Array
from workbench.text import Alignment

__all__ = ["Attribution", "Normalisation"]


class Normalisation(StrEnum):
    """What scores are divided by."""

    NONE = "none"
    SUM = "sum"  # the sum of their magnitudes: shares
    MAX = "max"  # the largest magnitude


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Attribution(Drawn):
    """Scores of one text's tokens (or words) for one target by one method.

    ``signed`` scores are positive where a token speaks for the target and negative where against it; others
    are magnitudes. ``delta`` is the completeness error: the sum of the scores minus what they should sum to,
    ``value - baseline_value``; ``None`` for methods that do not promise completeness. Tokens that are not
    ``attributed`` (special tokens, masks) are not ranked. Their score is 0 by construction, except with methods
    that look inside the model (layers, attention), which say how much those positions hold.
    """

    drawn_by = "attribution_view"

    model: str
    method: str
    target: str  # what is attributed, such as "log p(' are') - log p(' is')"
    target_note: str  # how a target of several pieces was treated
    value: float  # of the target for this text
    tokens: tuple[str, ...]
    scores: Float[Array, " token"]
    attributed: tuple[bool, ...]
    alignment: Alignment
    signed: bool
    convention: str  # what a score means, in words
    baseline: str | None = None
    baseline_value: float | None = None
    delta: float | None = None
    steps: int | None = None  # or samples
    layer: int | None = None
    seed: int | None = None
    note: str = ""  # what a reader of the scores should know
    entropy: float | None = None  # bits, of the distribution that a generated token is predicted from
    normalisation: Normalisation = Normalisation.NONE
    level: str = "token"  # or "word"
    aggregation: str | None = None  # how words were made of tokens

    def __post_init__(self) -> None:
        as_members(self)
        sizes = {len(self.tokens), len(self.scores), len(self.attributed)}
        assert len(sizes) == 1, f"a score for each token, got {sizes}"

    def __len__(self) -> int:
        return len(self.tokens)

    def normalised(self, how: Normalisation | str) -> Attribution:
        """The same with scores divided as ``how`` says; all zeros stay zeros."""
        chosen = member(Normalisation, how, "normalisation")
        if chosen is Normalisation.NONE or not len(self):
            return self
        sizes = np.abs(self.scores)
        divisor = float(sizes.sum() if chosen is Normalisation.SUM else sizes.max()) or 1.0
        return replace(self, scores=self.scores / divisor, normalisation=chosen)

    def words(self, how: str | None = None) -> Attribution:
        """Sub-words merged to words by "sum", "mean" or "max" (of largest magnitude).

        By default signed scores are summed, which keeps completeness, and of magnitudes the largest stands.
        Special tokens stay words of their own.
        """
        chosen = how or ("sum" if self.signed else "max")
        if chosen not in ("sum", "mean", "max"):
            raise ConfigError(f"words is {how!r}; allowed: sum, mean, max")
        if self.level == "word":
            return self
        groups = word_groups(self.alignment)
        members = [np.flatnonzero(row) for row in groups.sum_matrix]
        merged = np.array([_merge(self.scores[m], chosen) for m in members])
        attributed = tuple(any(self.attributed[i] for i in m) for m in members)
        return replace(
            self,
            tokens=groups.labels,
            scores=merged,
            attributed=attributed,
            level="word",
            aggregation=chosen,
        )

    def order(self) -> Array:
        """Positions of the attributed tokens, the highest score first (ties: the earlier one)."""
        kept = np.flatnonzero(self.attributed)
        return kept[np.argsort(-self.scores[kept], kind="stable")]

    def to_frame(self) -> pd.DataFrame:
        """One row a token: ``position``, ``token``, ``score``, ``attributed``; the rest in ``attrs``."""
        frame = pd.DataFrame(
            {
                "position": range(len(self)),
                "token": self.tokens,
                "score": self.scores,
                "explained": self.attributed,
            }
        )
        frame.attrs.update(self.about())
        return frame

    def about(self) -> dict[str, Any]:
        """Everything but tokens and scores, as plain values."""
        names = [f.name for f in fields(self) if f.name not in _NOT_ABOUT]
        return {**{name: getattr(self, name) for name in names}, "normalisation": str(self.normalisation)}

    def view(self) -> Drawing:
        """The text in colours: what :meth:`figure` gives."""
        return self.figure()

    def html(self) -> str:
        """The text in colours as a self-contained page."""
        return self.figure().html

    def latex(self) -> str:
        """The text in colours as LaTeX, for the ``xcolor`` package."""
        latex: Any = self.figure()
        return str(latex.latex())

    def __repr__(self) -> str:
        order = self.order()[:3]
        best = ", ".join(f"{self.tokens[i]!r} {self.scores[i]:+.3g}" for i in order)
        note = f"; {self.note}" if self.note else ""
        return f"<Attribution {self.method} of {self.target}: {best}, ...{note}>"


_NOT_ABOUT = ("tokens", "scores", "attributed", "alignment", "normalisation")


def _merge(scores: Array, how: str) -> float:
    if how == "sum":
        return float(scores.sum())
    if how == "mean":
        return float(scores.mean())
    return float(scores[np.abs(scores).argmax()])
