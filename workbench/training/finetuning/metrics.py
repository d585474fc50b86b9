"""From predictions to metrics, each with its interval over examples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import stats

from workbench.estimate import Estimate
from workbench.statistics import bootstrap, mean_estimate
from workbench.training.finetuning.tasks import AnswerKind

__all__ = ["compute_metrics", "label_spans", "word_f1"]

RESAMPLES = 500


def compute_metrics(kind: AnswerKind, predicted: Sequence[Any], gold: Sequence[Any]) -> dict[str, Estimate]:
    """The metrics of a kind. ``predicted`` and ``gold`` hold label numbers, numbers, lists of labels, or texts."""
    if kind is AnswerKind.NUMBER:
        return _over_pairs({"pearson": _pearson, "spearman": _spearman}, predicted, gold)
    if kind is AnswerKind.RESPONSE:
        losses = np.asarray(predicted, dtype=float)
        return {
            "loss": bootstrap(losses, seed=0, higher_is_better=False),
            "perplexity": bootstrap(losses, seed=0, transform=np.exp, higher_is_better=False),
        }
    if kind is AnswerKind.SPAN:
        exact = [float(p.strip() == g.strip()) for p, g in zip(predicted, gold, strict=True)]
        shared = [word_f1(p, g) for p, g in zip(predicted, gold, strict=True)]
        return {"exact_match": mean_estimate(exact, seed=0), "f1": bootstrap(shared, seed=0)}
    if kind is AnswerKind.TOKENS:
        return _token_metrics(predicted, gold)
    right = [float(p == g) for p, g in zip(predicted, gold, strict=True)]
    found = {"accuracy": mean_estimate(right, seed=0)}
    if kind is AnswerKind.CLASS:
        labels = {int(value) for value in [*gold, *predicted]}
        found |= _over_pairs({"matthews": _matthews}, predicted, gold)
        if labels <= {0, 1}:
            found |= _over_pairs({"f1": _f1}, predicted, gold)
        else:
            found |= _over_pairs({"macro_f1": _macro_f1}, predicted, gold)
    return found


def _over_pairs(
    metrics: dict[str, Callable[[np.ndarray, np.ndarray], float]],
    predicted: Sequence[Any],
    gold: Sequence[Any],
) -> dict[str, Estimate]:
    p, g = np.asarray(predicted, dtype=float), np.asarray(gold, dtype=float)

    def over(metric: Callable[[np.ndarray, np.ndarray], float]) -> Estimate:
        def of_rows(rows: np.ndarray, axis: int = -1) -> Any:
            return np.apply_along_axis(lambda r: metric(p[r.astype(int)], g[r.astype(int)]), axis, rows)

        return bootstrap(np.arange(len(p)), of_rows, seed=0, resamples=RESAMPLES)

    return {name: over(metric) for name, metric in metrics.items()}


def _f1(p: np.ndarray, g: np.ndarray) -> float:
    hits = float(((p == 1) & (g == 1)).sum())
    return 2 * hits / max(1.0, float((p == 1).sum() + (g == 1).sum()))


def _macro_f1(p: np.ndarray, g: np.ndarray) -> float:
    return float(np.mean([_f1((p == label).astype(int), (g == label).astype(int)) for label in np.unique(g)]))


def _matthews(p: np.ndarray, g: np.ndarray) -> float:
    """Gorodkin 2004, equation 8: the correlation of the two as indicator matrices; 0 where one is constant."""
    labels = np.unique(np.concatenate((p, g)))
    ps, gs = p[:, None] == labels, g[:, None] == labels
    share_p, share_g = ps.mean(0), gs.mean(0)
    shared = (ps & gs).mean() * len(labels) - share_p @ share_g
    spread = np.sqrt((1 - share_p @ share_p) * (1 - share_g @ share_g))
    return float(shared / spread) if spread > 0 else 0.0


def _pearson(p: np.ndarray, g: np.ndarray) -> float:
    return float(np.corrcoef(p, g)[0, 1]) if p.std() > 0 and g.std() > 0 else 0.0


def _spearman(p: np.ndarray, g: np.ndarray) -> float:
    return _pearson(stats.rankdata(p), stats.rankdata(g))


def word_f1(predicted: str, gold: str) -> float:
    """F1 of the words of two texts, as bags; Rajpurkar et al. 2016, "SQuAD", section 6.1."""
    p, g = Counter(predicted.lower().split()), Counter(gold.lower().split())
    shared = (p & g).total()
    return 2 * shared / (p.total() + g.total()) if shared else float(p == g)


def label_spans(labels: Sequence[str]) -> set[tuple[int, int, str]]:
    """Start, end and type of each span in ``B-``/``I-``/``O`` labels; an ``I-`` after another type opens one."""
    spans: set[tuple[int, int, str]] = set()
    start, kind = 0, ""
    for place, label in enumerate([*labels, "O"]):
        mark, _, name = label.partition("-")
        goes_on = mark == "I" and name == kind and kind != ""
        if kind and not goes_on:
            spans.add((start, place, kind))
            kind = ""
        if not goes_on and mark in ("B", "I"):
            start, kind = place, name
    return spans


def _token_metrics(predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]) -> dict[str, Estimate]:
    right = [float(a == b) for p, g in zip(predicted, gold, strict=True) for a, b in zip(p, g, strict=True)]
    counts = []
    for p, g in zip(predicted, gold, strict=True):
        a, b = label_spans(p), label_spans(g)
        counts.append((len(a & b), len(a), len(b)))
    table = np.array(counts, dtype=float)

    def f1(rows: np.ndarray, axis: int = -1) -> Any:
        sums = table[rows.astype(int)].sum(axis=-2)  # (..., 3)
        return 2 * sums[..., 0] / np.maximum(1.0, sums[..., 1] + sums[..., 2])

    spans = bootstrap(np.arange(len(table)), f1, seed=0, resamples=RESAMPLES)
    return {"token_accuracy": bootstrap(right, seed=0), "span_f1": spans}
