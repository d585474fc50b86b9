"""From votes to win rates, the same at equal lengths, and strengths of several models; verdicts in words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from workbench.drawn import Drawn
from workbench.errors import DataError
from workbench.estimate import Estimate
from workbench.evaluate.compare import LEVEL, compare_scores
from workbench.evaluate.compare_items import ItemScores
from workbench.evaluate.preferences.votes import Vote
from workbench.shapes import Array
from workbench.statistics import (
    Strengths,
    Ties,
    bootstrap,
    bradley_terry,
    holm,
    length_controlled_win_rate,
    mean_estimate,
    mean_measure,
    minimum_detectable_difference,
)
from workbench.terminal import counted

__all__ = ["PreferenceComparison", "WinRate", "analyse_votes"]


@dataclass(frozen=True, kw_only=True)
class WinRate:
    """How often one model's replies are preferred to another's.

    ``rate`` counts a tie as half a win, with an interval over prompts; ``controlled`` is the same at equal lengths
    (Dubois et al. 2024), ``length_effect`` the log-odds by which length counts, and ``length_difference`` the mean
    number of characters by which the first model writes more; all three are ``None`` where the replies are unknown.
    ``same`` counts ties of replies that are the same. ``detectable`` is the smallest true distance of the rate from
    one half that this number of prompts shows in four of five cases.
    """

    first: str
    second: str
    prompts: int
    wins: int
    losses: int
    ties: int
    same: int
    rate: Estimate
    controlled: Estimate | None
    length_effect: Estimate | None
    length_difference: Estimate | None
    test: str
    p_value: float
    detectable: float
    p_holm: float

    @property
    def preferred(self) -> str | None:
        """The model shown to be preferred at 5 % after Holm's correction; ``None`` where none is."""
        if not self.p_holm <= LEVEL or self.rate.value == 0.5:
            return None
        return self.first if self.rate.value > 0.5 else self.second

    @property
    def comparisons(self) -> int:
        """All of them, ties included."""
        return self.wins + self.losses + self.ties

    @property
    def verdict(self) -> str:
        """One sentence that says no more than the numbers do."""
        where = counted(self.prompts, "prompt")
        if self.comparisons != self.prompts:
            where = f"{counted(self.comparisons, 'comparison')} on {where}"
        if self.ties == self.comparisons:
            why = (
                "the replies are the same" if self.same == self.ties else "no reply is rated above the other"
            )
            return f"no preference: every one of {where} is a tie ({why})"
        tied = f", {counted(self.ties, 'tie')} counted as half" if self.ties else ""
        said = f"{100 * self._share(self.rate.value):.1f} % of {where}{tied}"
        if self.preferred is None:
            gap = f"; a win rate within {100 * self.detectable:.1f} points of 50 % would not have been seen"
            return f"no preference shown: {self.first} wins {said}{gap if self.detectable < 0.5 else ''}"
        return f"{self.preferred} is preferred in {said} ({self._bounds(self.rate)}){self._at_equal_length}"

    def _share(self, value: float) -> float:
        """The rate of the preferred model, which may be the second."""
        return 1 - value if self.preferred == self.second else value

    def _bounds(self, rate: Estimate) -> str:
        if math.isnan(rate.low):
            return f"interval undefined: {rate.undefined}"
        low, high = sorted(100 * self._share(v) for v in (rate.low, rate.high))
        return f"95 % interval {low:.1f} to {high:.1f} %"

    @property
    def _at_equal_length(self) -> str:
        found = self.controlled
        if found is None or math.isnan(found.value):
            return ""
        return f"; at equal lengths in {100 * self._share(found.value):.1f} % ({self._bounds(found)})"

    def metrics(self) -> dict[str, Estimate]:
        """What a run stores of it."""
        found = {
            "win_rate": self.rate,
            "length_controlled_win_rate": self.controlled,
            "length_effect": self.length_effect,
            "length_difference": self.length_difference,
        }
        return {name: estimate for name, estimate in found.items() if estimate is not None}

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionary for ``--json``."""
        counts = ("first", "second", "prompts", "wins", "losses", "ties", "same")
        numbers = ("test", "p_value", "p_holm", "detectable", "preferred", "verdict")
        return {
            **{name: getattr(self, name) for name in counts},
            **{name: estimate.to_dict() for name, estimate in self.metrics().items()},
            **{name: getattr(self, name) for name in numbers},
        }


@dataclass(frozen=True, kw_only=True, repr=False)
class PreferenceComparison(Drawn):
    """Every pair of models that was compared, and the strengths of all, ``by`` whatever preferred."""

    drawn_by: ClassVar[str] = "preference_plot"

    by: str
    pairs: tuple[WinRate, ...]
    strengths: Strengths

    @property
    def verdicts(self) -> list[str]:
        """One line a pair."""
        return [f"{pair.first} and {pair.second}: {pair.verdict}" for pair in self.pairs]

    def results(self) -> dict[str, dict[str, Estimate]]:
        """What a run stores: win rates by pair; with three models or more, Elo and log-strength by model."""
        found = {f"{pair.first} vs {pair.second}": pair.metrics() for pair in self.pairs}
        if len(self.strengths.names) > 2:
            logs = self.strengths.estimates()
            found |= {n: {"elo": e, "log_strength": logs[n]} for n, e in self.strengths.elo().items()}
        return found

    def to_frame(self) -> pd.DataFrame:
        """One row a pair: counts, win rate and length-controlled win rate with their intervals, p-values, verdict."""
        rows = []
        for pair in self.pairs:
            row = {key: value for key, value in pair.to_dict().items() if not isinstance(value, dict)}
            for name, estimate in pair.metrics().items():
                row |= {name: estimate.value, f"{name} low": estimate.low, f"{name} high": estimate.high}
            rows.append(row)
        return pd.DataFrame(rows)

    def strengths_frame(self) -> pd.DataFrame:
        """One row a model, the strongest first: Elo and log-strength with their intervals."""
        logs, elo = self.strengths.estimates(), self.strengths.elo()
        rows = [
            {"model": name, "elo": e.value, "low": e.low, "high": e.high, "log_strength": logs[name].value}
            for name, e in elo.items()
        ]
        return pd.DataFrame(rows).sort_values("elo", ascending=False, kind="stable").reset_index(drop=True)

    def __str__(self) -> str:
        return "\n".join(self.verdicts)

    def __repr__(self) -> str:
        return f"<PreferenceComparison by {self.by}:\n{self}>"


def analyse_votes(
    votes: Sequence[Vote],
    *,
    by: str = "votes",
    ties: Ties | str = Ties.HALF,
    seed: int = 0,
    resamples: int = 2000,
) -> PreferenceComparison:
    """Win rates of every pair of models that ``votes`` compare, and the strengths of all of them.

    Votes on one prompt are not independent: intervals and tests go over prompts. ``ties`` is what a tie means for the
    strengths (:func:`~workbench.statistics.bradley_terry`); in win rates it is half a win. ``seed`` is of permutations
    and ``resamples``. Raises :class:`~workbench.errors.DataError` for no votes, and
    :class:`~workbench.errors.NumericsError` for models that no chain of comparisons links.

    Example:
        ```python
        from workbench.evaluate.preferences import Vote, analyse_votes

        votes = [Vote(prompt=str(n), first="base", second="tuned", score=float(n % 4 == 0)) for n in range(40)]
        print(analyse_votes(votes))
        ```
    """
    if not votes:
        raise DataError("no votes; a comparison by preference needs one at least")
    names = list(dict.fromkeys(name for vote in votes for name in (vote.first, vote.second)))
    strengths = bradley_terry(
        [vote.first for vote in votes],
        [vote.second for vote in votes],
        [vote.score for vote in votes],
        clusters=[vote.prompt for vote in votes],
        ties=ties,
    )
    between = [(a, b, _between(votes, a, b)) for a, b in combinations(names, 2)]
    pairs = [_win_rate(a, b, own, seed, resamples) for a, b, own in between if own]
    adjusted = holm([pair.p_value for pair in pairs])
    corrected = tuple(replace(pair, p_holm=float(p)) for pair, p in zip(pairs, adjusted, strict=True))
    return PreferenceComparison(by=by, pairs=corrected, strengths=strengths)


def _between(votes: Sequence[Vote], first: str, second: str) -> list[Vote]:
    """The votes on the two models, each with ``first`` in front."""
    found = [vote for vote in votes if {vote.first, vote.second} == {first, second}]
    return [vote if vote.first == first else _turned(vote) for vote in found]


def _turned(vote: Vote) -> Vote:
    return Vote(
        prompt=vote.prompt,
        first=vote.second,
        second=vote.first,
        score=1 - vote.score,
        reply_first=vote.reply_second,
        reply_second=vote.reply_first,
    )


def _win_rate(first: str, second: str, votes: Sequence[Vote], seed: int, resamples: int) -> WinRate:
    score = np.array([vote.score for vote in votes])
    prompts = np.array([vote.prompt for vote in votes], dtype=object)
    count = len(set(prompts.tolist()))
    clusters = prompts if count < len(votes) else None
    own, others = _scores(score, clusters), _scores(1 - score, clusters)
    tested = compare_scores(
        own, others, (first, second), "preferences", "win_rate", seed=seed, resamples=resamples
    )
    outcomes = Counter(np.sign(score - 0.5).astype(int).tolist())
    known = any(vote.reply_first or vote.reply_second for vote in votes)
    controlled, effect, longer = _lengths(score, votes, clusters, seed) if known else (None, None, None)
    return WinRate(
        first=first,
        second=second,
        prompts=count,
        wins=outcomes[1],
        losses=outcomes[-1],
        ties=outcomes[0],
        same=sum(vote.same_reply for vote in votes),
        rate=mean_estimate(score, seed=seed, resamples=resamples, clusters=clusters),
        controlled=controlled,
        length_effect=effect,
        length_difference=longer,
        test=tested.test.replace("McNemar", "sign test"),  # which McNemar's is of wins and losses
        p_value=tested.p_value,
        detectable=minimum_detectable_difference(_error_of_no_preference(score, prompts)),
        p_holm=tested.p_value,
    )


def _error_of_no_preference(score: Array, prompts: Array) -> float:
    """The standard error of the win rate if its true value is one half: over prompts, with the ties there are."""
    codes = np.unique([str(prompt) for prompt in prompts], return_inverse=True)[1]
    return float(np.sqrt((np.bincount(codes, weights=score - 0.5) ** 2).sum())) / len(score)


def _scores(score: Array, clusters: Array | None) -> ItemScores:
    ids = tuple(map(str, range(len(score))))
    return ItemScores(ids, score[:, None], mean_measure, clusters, True)


def _lengths(
    score: Array, votes: Sequence[Vote], clusters: Array | None, seed: int
) -> tuple[Estimate, Estimate, Estimate]:
    apart = np.array([float(vote.length_difference) for vote in votes])
    rate, effect = length_controlled_win_rate(score, apart, clusters=clusters)
    longer = bootstrap(apart, seed=seed, clusters=clusters)
    return rate, replace(effect, higher_is_better=None), replace(longer, higher_is_better=None)
