"""How often the intervals hold the true value, in simulations with fixed seeds.

``python -m tests.coverage`` prints the table of docs/numerics.md; the tests run the same cases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from workbench.estimate import Estimate
from workbench.evaluate.calibration import calibration_of
from workbench.statistics import (
    bootstrap,
    bradley_terry,
    clustered_wilson,
    f1_measure,
    length_controlled_win_rate,
    matthews_measure,
    mean_estimate,
    measure_estimate,
    over_seeds,
    paired_difference,
    perplexity_measure,
    unit_perplexity_measure,
    wilson,
)
from workbench.training.sweep import fit_power_law

__all__ = ["CASES", "Case", "coverage"]

RESAMPLES = 600  # of each bootstrap


@dataclass(frozen=True)
class Case:
    """Samples drawn by ``draw`` (from a generator, and a seed for the interval), whose true value is ``truth``.

    ``least`` and ``most`` bound the share of intervals that hold it; where they are not 0.93 and 0.97, ``why`` says so.
    """

    interval: str
    sample: str
    draw: Callable[[np.random.Generator, int], Estimate]
    truth: float
    least: float = 0.93
    most: float = 0.97
    why: str = ""
    samples: int = 1000

    @property
    def name(self) -> str:
        """Interval and sample."""
        return f"{self.interval}: {self.sample}"


def coverage(case: Case) -> float:
    """Share of the case's samples whose interval holds the true value; an undefined interval does not."""
    rng = np.random.default_rng(20261129)
    found = [case.draw(rng, seed) for seed in range(case.samples)]
    return float(np.mean([e.low <= case.truth <= e.high for e in found]))


def _clusters(
    rng: np.random.Generator, groups: int, share: float, spread: float, unequal: bool = False
) -> tuple[Any, Any]:
    """Right (1) and wrong (0) of some 20 cases in each of ``groups``, whose own shares vary, and the groups' labels."""
    own = rng.beta(share * (1 - spread) / spread, (1 - share) * (1 - spread) / spread, groups)
    sizes = rng.integers(4, 40, groups) if unequal else np.full(groups, 20)
    labels = np.repeat(np.arange(groups), sizes)
    return (rng.random(len(labels)) < own[labels]).astype(float), labels


def _failure_rate(groups: int, share: float, spread: float, unequal: bool = False) -> Any:
    def draw(rng: np.random.Generator, seed: int) -> Estimate:
        return clustered_wilson(*_clusters(rng, groups, share, spread, unequal))

    return draw


def _mean(make: Callable[[np.random.Generator], Any], **options: Any) -> Any:
    return lambda rng, seed: bootstrap(make(rng), seed=seed, resamples=RESAMPLES, **options)


def _in_clusters(measure: Any, groups: int) -> Any:
    """Twenty items a cluster; a cluster's items are right together more often than others'."""

    def draw(rng: np.random.Generator, seed: int) -> Estimate:
        labels = np.repeat(np.arange(groups), 20)
        gold = (rng.random(len(labels)) < 0.5).astype(float)
        right = rng.random(len(labels)) < rng.beta(8, 2, groups)[labels]
        table = np.stack([np.where(right, gold, 1 - gold), gold], -1)
        return measure_estimate(table, measure, seed=seed, clusters=labels, resamples=RESAMPLES)

    return draw


def _losses_in_clusters(groups: int) -> Any:
    def draw(rng: np.random.Generator, seed: int) -> Estimate:
        labels = np.repeat(np.arange(groups), 20)
        losses = 2 + rng.normal(0, 0.3, groups)[labels] + rng.exponential(1, len(labels))
        return measure_estimate(
            losses[:, None], perplexity_measure, seed=seed, clusters=labels, resamples=RESAMPLES
        )

    return draw


def _token_perplexity(texts: int) -> Any:
    def draw(rng: np.random.Generator, seed: int) -> Estimate:
        tokens = rng.integers(20, 200, texts)
        losses = tokens * (1 + rng.gamma(2, 0.5, texts))
        table = np.stack([losses, tokens], -1)
        return measure_estimate(table, unit_perplexity_measure, seed=seed, resamples=RESAMPLES)

    return draw


def _seeds(seeds: int, spread: float) -> Any:
    """Accuracy of 400 items, right with probability 0.8, the same for all seeds; seeds vary by ``spread``."""
    item_error = np.sqrt(0.8 * 0.2 / 400)

    def draw(rng: np.random.Generator, seed: int) -> Estimate:
        values = 0.8 + rng.normal(0, item_error) + rng.normal(0, spread, seeds)
        one = [
            Estimate(value=float(v), standard_error=float(item_error), low=0, high=1, n=400) for v in values
        ]
        return over_seeds(one).total

    return draw


def _power_law(points: int) -> Any:
    def draw(rng: np.random.Generator, seed: int) -> Estimate:
        sizes = np.geomspace(1e5, 1e8, points)
        losses = (1e13 / sizes) ** 0.08 * np.exp(rng.normal(0, 0.01, points))
        return fit_power_law(sizes, losses, unit="parameters").exponent

    return draw


def _difference(items: int) -> Any:
    def draw(rng: np.random.Generator, seed: int) -> Estimate:
        first = rng.exponential(1, items)
        return paired_difference(first, first + rng.normal(0.2, 0.5, items), seed=seed, resamples=RESAMPLES)

    return draw


def _calibration(items: int, overconfidence: float) -> Any:
    """The debiased error where a model is right less often than it says, by ``overconfidence`` of what passes 0.5."""

    def draw(rng: np.random.Generator, seed: int) -> Estimate:
        confidence = 0.5 + 0.5 * rng.random(items)
        wrong = (rng.random(items) > confidence - overconfidence * (confidence - 0.5)).astype(int)
        table = np.stack([confidence, 1 - confidence], -1)
        return calibration_of(table.tolist(), wrong.tolist(), seed=seed).debiased_error

    return draw


def _binomial(items: int, share: float) -> Any:
    return lambda rng, seed: wilson(int(rng.binomial(items, share)), items)


def _clustered_mean(groups: int) -> Any:
    def draw(rng: np.random.Generator, seed: int) -> Estimate:
        values, labels = _clusters(rng, groups, 0.7, 0.3)
        return mean_estimate(values, seed=seed, clusters=labels, resamples=RESAMPLES)

    return draw


def _strength(prompts: int) -> Any:
    """The strongest of four models, each compared with each other on every prompt, which favours some of them."""

    def draw(rng: np.random.Generator, seed: int) -> Estimate:
        pairs = [(i, j) for i in range(4) for j in range(i)]
        first, second = (np.tile([pair[side] for pair in pairs], prompts) for side in (0, 1))
        labels = np.repeat(np.arange(prompts), len(pairs))
        # differences of Gumbel values are logistic: one value for each model and prompt links a prompt's verdicts
        own = np.array([0.75, 0.25, -0.25, -0.75]) + rng.gumbel(size=(prompts, 4))
        won = (own[labels, first] > own[labels, second]).astype(float)
        return bradley_terry(
            [str(i) for i in first], [str(i) for i in second], won, clusters=labels
        ).estimates()["0"]

    return draw


def _controlled(pairs: int) -> Any:
    """Verdicts that favour the longer reply, which is more often the first model's."""

    def draw(rng: np.random.Generator, seed: int) -> Estimate:
        apart = rng.normal(50, 100, pairs)
        chance = expit(0.5 + np.tanh(apart / apart.std(ddof=1)))
        return length_controlled_win_rate(rng.random(pairs) < chance, apart)[0]

    return draw


_FEW = "few counts are possible, so the share jumps"
_LONG_TAIL = "the tail is seldom in so few values"
_TIES = "few values are possible"
_SMALL = "the spread of so few is hardly known"
_TWO_SOURCES = "the quantiles of both sources are added: rather too wide"
_BORDER = "the lower of two ends is taken, and 0 is the least error there is"
# gaps of 0.025, 0.075, ... 0.225 in five bins of equal weight
_OVERCONFIDENT = float(np.sqrt(np.mean(np.square([0.025, 0.075, 0.125, 0.175, 0.225]))))
_SLOW = 250  # samples where a resample is drawn cluster by cluster

CASES: tuple[Case, ...] = (
    Case("wilson", "10 items, share 0.5", _binomial(10, 0.5), 0.5, 0.93, 0.99, _FEW),
    Case("wilson", "30 items, share 0.05", _binomial(30, 0.05), 0.05, 0.93, 0.99, _FEW),
    Case("wilson", "200 items, share 0.33", _binomial(200, 0.33), 0.33),
    *(
        Case(
            "clustered_wilson",
            f"{groups} clusters{' of unequal size' * unequal}, share {share}, correlation {rho}",
            _failure_rate(groups, share, rho, unequal),
            share,
            *((0.91, 0.98, _SMALL) if groups < 10 else ()),
        )
        for groups in (5, 6, 8, 12, 30)
        for share, rho, unequal in ((0.3, 0.1, False), (0.3, 0.3, False), (0.1, 0.2, False), (0.3, 0.3, True))
    ),
    *(
        Case("bootstrap, mean", f"{n} exponential losses", _mean(lambda rng, n=n: rng.exponential(1, n)), 1.0)
        for n in (10, 20, 50, 200)
    ),
    *(
        Case(
            "bootstrap, mean",
            f"{n} normal values",
            _mean(lambda rng, n=n: rng.normal(3, 1, n)),
            3.0,
            *((0.91, 0.97, _SMALL) if n < 10 else ()),
        )
        for n in (5, 10, 20, 50)
    ),
    *(
        Case(
            "bootstrap, mean",
            f"{n} log-normal losses",
            _mean(lambda rng, n=n: rng.lognormal(0, 1, n)),
            float(np.exp(0.5)),
            *((0.89, 0.97, _LONG_TAIL) if n < 100 else ()),
        )
        for n in (10, 20, 50, 200)
    ),
    *(
        Case(
            "bootstrap, mean",
            f"{n} scores of 0, 0.5 or 1",
            _mean(lambda rng, n=n: rng.choice([0, 0.5, 1], n, p=[0.2, 0.2, 0.6])),
            0.7,
            0.92,
            0.98,
            _TIES,
        )
        for n in (10, 20, 50)
    ),
    *(
        Case(
            "bootstrap, perplexity",
            f"{n} gamma losses",
            _mean(lambda rng, n=n: rng.gamma(2, 1, n), transform=np.exp),
            float(np.exp(2)),
        )
        for n in (10, 20, 50)
    ),
    *(
        Case(
            "measure_estimate, token perplexity",
            f"{n} texts",
            _token_perplexity(n),
            float(np.exp(2)),
            *((0.90, 0.97, _SMALL) if n < 50 else ()),
        )
        for n in (10, 20, 50)
    ),
    *(
        Case(f"measure_estimate, {name}", f"{g} clusters", draw(g), truth, 0.90, 0.98, _SMALL, samples=_SLOW)
        for g in (6, 12)
        for name, draw, truth in (
            ("F1", lambda g: _in_clusters(f1_measure, g), 0.8),
            ("Matthews", lambda g: _in_clusters(matthews_measure, g), 0.6),
            ("perplexity", _losses_in_clusters, float(np.exp(3))),
        )
    ),
    *(
        Case(
            "mean_estimate",
            f"{g} clusters of right and wrong",
            _clustered_mean(g),
            0.7,
            *((0.91, 0.97, _SMALL) if g < 10 else ()),
            samples=4000,
        )
        for g in (6, 12, 30)
    ),
    *(Case("paired_difference", f"{n} items", _difference(n), -0.2) for n in (10, 20, 50, 200)),
    *(
        Case(
            "over_seeds",
            f"{k} seeds, deviation {deviation} beside an items' error of 0.02",
            _seeds(k, deviation),
            0.8,
            0.93,
            0.99,
            _TWO_SOURCES,
        )
        for k in (2, 3, 5)
        for deviation in (0.0, 0.02, 0.1)
    ),
    *(
        Case(
            "calibration_of, debiased error",
            f"{n} items, {'calibrated' if not truth else 'overconfident'}",
            _calibration(n, overconfidence),
            truth,
            0.93,
            1.0,
            _BORDER,
            samples=100,
        )
        for n in (200,)
        for overconfidence, truth in ((0.0, 0.0), (0.5, _OVERCONFIDENT))
    ),
    *(Case("bradley_terry", f"4 models on {n} prompts", _strength(n), 0.75, samples=500) for n in (20, 100)),
    *(
        Case(
            "length_controlled_win_rate",
            f"{n} pairs of replies",
            _controlled(n),
            float(expit(0.5)),
            samples=500,
        )
        for n in (50, 200)
    ),
    *(Case("fit_power_law", f"{n} sizes", _power_law(n), 0.08) for n in (4, 6, 12)),
)


def main() -> None:
    """Print the table."""
    print("| interval | sample | held by | allowed |\n|---|---|---|---|")
    for case in CASES:
        allowed = f"{case.least:.2f} to {case.most:.2f}" + (f": {case.why}" if case.why else "")
        print(f"| {case.interval} | {case.sample} | {coverage(case):.3f} | {allowed} |", flush=True)


if __name__ == "__main__":
    main()
