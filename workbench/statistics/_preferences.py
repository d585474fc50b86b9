"""Models compared in pairs: Bradley-Terry strengths, and a win rate at equal lengths."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from scipy import stats
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.special import expit

from workbench.errors import NumericsError
from workbench.estimate import Estimate
from workbench.shapes import Array
from workbench.statistics._logit import Fit, fit_logit, two_outcomes

__all__ = ["ELO_MEAN", "Strengths", "Ties", "bradley_terry", "length_controlled_win_rate"]

ELO_MEAN = 1000.0
"""The mean of the models' Elo numbers, which comparisons leave open."""

_ELO = 400 / math.log(10)  # of one unit of log-strength


class Ties(StrEnum):
    """What a tie counts for: half a win of either side, or an outcome of its own (Davidson 1970)."""

    HALF = "half"
    DAVIDSON = "davidson"


@dataclass(frozen=True, kw_only=True)
class Strengths:
    """Log-strengths (model,) whose mean is zero, and their covariance (model, model).

    ``groups`` counts what is independent (prompts), ``tie`` is Davidson's log ν, ``None`` where ties count as half.
    Where the likelihood has no maximum, values are NaN and ``undefined`` says why.
    """

    names: tuple[str, ...]
    values: Array
    covariance: Array
    groups: int
    ties: Ties
    tie: float | None = None
    undefined: str | None = None

    def estimates(self, confidence: float = 0.95) -> dict[str, Estimate]:
        """Each model's log-strength with Student's t interval."""
        return self._scaled(1.0, 0.0, confidence)

    def elo(self, confidence: float = 0.95) -> dict[str, Estimate]:
        """The same on the scale of Elo (1978): 400 / ln 10 a unit, 1000 on average; 400 apart, ten wins to one."""
        return self._scaled(_ELO, ELO_MEAN, confidence)

    def win_probability(self, first: str, second: str) -> float:
        """How likely ``first`` is to be preferred to ``second``, ties left aside."""
        a, b = self.names.index(first), self.names.index(second)
        return float(expit(self.values[a] - self.values[b]))

    def _scaled(self, unit: float, mean: float, confidence: float) -> dict[str, Estimate]:
        errors = np.sqrt(np.diag(self.covariance))
        return {
            name: _interval(
                mean + unit * float(value),
                unit * float(error),
                self.groups,
                confidence,
                self._method,
                self.undefined,
            )
            for name, value, error in zip(self.names, self.values, errors, strict=True)
        }

    @property
    def _method(self) -> str:
        tied = "ties as half" if self.ties is Ties.HALF else "ties as Davidson 1970"
        return f"Bradley-Terry, {tied}, sandwich over {self.groups} groups"


def bradley_terry(
    first: Sequence[str],
    second: Sequence[str],
    score: Sequence[float] | Array,
    *,
    clusters: Sequence[Any] | Array | None = None,
    ties: Ties | str = Ties.HALF,
) -> Strengths:
    """The log-strengths s under which comparisons are likeliest: P(i is preferred to j) = 1 / (1 + exp(s_j - s_i)).

    Bradley & Terry (1952), by maximum likelihood. With Davidson's ties (1970) a tie of i and j is as likely as
    ν sqrt(e^(s_i) e^(s_j)) says beside their e^(s), and log ν is estimated too. Intervals come from the covariance of
    Liang & Zeger (1986), so that comparisons of equal ``clusters`` label (one prompt) may depend on one another.

    Args:
        first: name of the model on one side of each comparison (comparison,).
        second: name of the other.
        score: 1 where the first is preferred, 0 where the second is, 0.5 for a tie (comparison,).
        clusters: label of what is not independent, as the prompt (comparison,).
        ties: ``half`` or ``davidson``.

    Raises:
        NumericsError: no comparison, scores outside 0 to 1 or models that no chain of comparisons links.

    Example:
        ```python
        from workbench.statistics import bradley_terry

        found = bradley_terry(list("AABAB"), list("BBCCC"), [1, 0, 1, 1, 0])
        print({name: str(elo) for name, elo in found.elo().items()})
        ```
    """
    convention, won = Ties(ties), np.asarray(score, dtype=float)
    names = tuple(dict.fromkeys([*first, *second]))
    ends = np.array([[names.index(a), names.index(b)] for a, b in zip(first, second, strict=True)])
    if not len(won) or len(won) != len(ends) or not ((won >= 0) & (won <= 1)).all():
        raise NumericsError(f"strengths need comparisons with scores from 0 to 1, got {len(won)} scores")
    if convention is Ties.DAVIDSON and not np.isin(won, (0.0, 0.5, 1.0)).all():
        raise NumericsError("ties as Davidson's need scores of 0, 0.5 or 1; choose ties='half'")
    _check_linked(names, ends)
    reason = _no_maximum(names, ends, won)
    design = _contrasts(ends, len(names))
    features, weights = two_outcomes(design, won)
    tied = convention is Ties.DAVIDSON and bool((won == 0.5).any())
    if tied:
        features, weights = _with_ties(features, won)
    fit = None if reason else fit_logit(features, weights, clusters)
    return _strengths(names, fit, convention, tied, reason or "the likelihood has no maximum")


def _check_linked(names: tuple[str, ...], ends: Array) -> None:
    labels = connected_components(_graph(ends, np.ones(len(ends)), len(names)), directed=False)[1]
    if labels.max() > 0:
        groups = [[n for n, g in zip(names, labels, strict=True) if g == k] for k in range(labels.max() + 1)]
        shown = " and ".join(", ".join(group) for group in groups[:3])
        raise NumericsError(
            f"no comparison links {shown}; strengths of models that nothing links cannot be compared: "
            "compare one of each, or each group alone"
        )


def _no_maximum(names: tuple[str, ...], ends: Array, won: Array) -> str | None:
    """Why no finite strengths are likeliest: some models are never preferred to any of the others (Ford 1957)."""
    both = np.concatenate([ends, ends[:, ::-1]])
    wins = _graph(both, np.concatenate([won, 1 - won]), len(names))
    count, labels = connected_components(wins, directed=True, connection="strong")
    if count == 1:
        return None
    entered = {int(labels[j]) for i, j in zip(*wins.nonzero(), strict=True) if labels[i] != labels[j]}
    top = next(k for k in range(count) if k not in entered)
    ahead = [name for name, label in zip(names, labels, strict=True) if label == top]
    return (
        f"no comparison of {', '.join(ahead)} with others is lost or tied, so no finite strength is likeliest"
    )


def _graph(ends: Array, weights: Array, count: int) -> Any:
    kept = weights > 0
    return coo_array((weights[kept], (ends[kept, 0], ends[kept, 1])), shape=(count, count)).tocsr()


def _contrasts(ends: Array, count: int) -> Array:
    """Difference of the two models' strengths (comparison, parameter) in all strengths but the last.

    The last is minus their sum.
    """
    design = np.zeros((len(ends), count))
    rows = np.arange(len(ends))
    np.add.at(design, (rows, ends[:, 0]), 1.0)
    np.add.at(design, (rows, ends[:, 1]), -1.0)
    return design[:, :-1] - design[:, -1:]


def _with_ties(features: Array, won: Array) -> tuple[Array, Array]:
    """A third outcome, the tie, whose utility is a parameter of its own."""
    rows, _, count = features.shape
    wider = np.zeros((rows, 3, count + 1))
    wider[:, :2, :count] = features
    wider[:, 2, count] = 1.0
    return wider, np.stack([won == 1, won == 0, won == 0.5], axis=1).astype(float)


def _strengths(names: tuple[str, ...], fit: Fit | None, ties: Ties, tied: bool, reason: str) -> Strengths:
    count = len(names)
    if fit is None:
        nothing = np.full(count, math.nan)
        return Strengths(
            names=names,
            values=nothing,
            covariance=np.full((count, count), math.nan),
            groups=0,
            ties=ties,
            undefined=reason,
        )
    expand = np.vstack([np.eye(count - 1), -np.ones((1, count - 1))])
    return Strengths(
        names=names,
        values=expand @ fit.parameters[: count - 1],
        covariance=expand @ fit.covariance[: count - 1, : count - 1] @ expand.T,
        groups=fit.groups,
        ties=ties,
        tie=float(fit.parameters[-1]) if tied else None,
        undefined="one prompt has no spread" if fit.groups < 2 else None,
    )


def _interval(
    value: float, error: float, groups: int, confidence: float, method: str, undefined: str | None
) -> Estimate:
    reach = float(stats.t.ppf(0.5 + confidence / 2, groups - 1)) * error if groups > 1 else math.nan
    return Estimate(
        value=value,
        standard_error=error,
        low=value - reach,
        high=value + reach,
        n=groups,
        confidence=confidence,
        method=method,
        undefined=undefined,
    )


def length_controlled_win_rate(
    score: Sequence[float] | Array,
    length_difference: Sequence[float] | Array,
    *,
    clusters: Sequence[Any] | Array | None = None,
    confidence: float = 0.95,
) -> tuple[Estimate, Estimate]:
    """The win rate that replies of equal length would have, and the effect of length.

    Dubois et al. (2024) model the chance that the first model's reply to x is preferred as

        logistic(θ + φ tanh((len(z_first) - len(z_second)) / std) + (ψ_first - ψ_second) γ_x)

    with the standard deviation of all length differences, and report the mean of its value without the term of
    length. The difficulty γ_x of an instruction is estimated from many models' comparisons, which two models do not
    have: without that term the length-controlled win rate is logistic(θ). Both parameters are of maximum likelihood,
    without the small penalty of AlpacaEval; a tie is half a win of either.

    Args:
        score: 1 where the first reply is preferred, 0 where the second is, 0.5 for a tie (comparison,).
        length_difference: length of the first reply minus that of the second, in any unit (comparison,).
        clusters: label of what is not independent (comparison,).
        confidence: of the intervals: of Student's t on the scale of log-odds, from a covariance over the clusters.

    Returns:
        The win rate at no difference, 0 to 1, and φ, in log-odds.

    Raises:
        NumericsError: no comparisons, lists of different lengths, or scores outside 0 to 1.

    Example:
        ```python
        from workbench.statistics import length_controlled_win_rate

        rate, effect = length_controlled_win_rate([1, 1, 0, 1, 0, 0.5], [80, 30, -20, -10, 15, 0])
        print(rate, effect)
        ```
    """
    won, apart = np.asarray(score, dtype=float), np.asarray(length_difference, dtype=float)
    if won.ndim != 1 or won.shape != apart.shape or not len(won) or not ((won >= 0) & (won <= 1)).all():
        raise NumericsError(
            f"length control needs scores from 0 to 1 and a length difference for each, got {len(won)} and {len(apart)}"
        )
    method = "logistic regression with length (Dubois et al. 2024)"
    spread = float(apart.std(ddof=1)) if len(apart) > 1 else 0.0
    if spread == 0:
        return _without(len(won), "all pairs of replies differ equally in length", method)
    design = np.stack([np.ones(len(apart)), np.tanh(apart / spread)], axis=1)
    fit = fit_logit(*two_outcomes(design, won), clusters)
    if fit is None:
        why = "one side always wins" if len(set(won.tolist())) == 1 else "length alone tells who wins"
        return _without(len(won), f"{why}, so no finite log-odds are likeliest", method)
    errors = np.sqrt(np.diag(fit.covariance))
    odds, effect = (
        _interval(
            float(v),
            float(e),
            fit.groups,
            confidence,
            method,
            None if fit.groups > 1 else "one prompt has no spread",
        )
        for v, e in zip(fit.parameters, errors, strict=True)
    )
    rate = float(expit(odds.value))
    controlled = Estimate(
        value=rate,
        standard_error=rate * (1 - rate) * odds.standard_error,
        low=float(expit(odds.low)),
        high=float(expit(odds.high)),
        n=fit.groups,
        confidence=confidence,
        method=method,
        undefined=odds.undefined,
    )
    return controlled, effect


def _without(n: int, why: str, method: str) -> tuple[Estimate, Estimate]:
    nothing = Estimate.without_interval(math.nan, n, why, method=method)
    return nothing, nothing
