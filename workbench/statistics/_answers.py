"""Written answers compared with gold ones by SQuAD's rules, and with questions that have no answer."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.shapes import Array

__all__ = ["best_exact", "best_f1", "normalized", "swept_threshold", "threshold_measure"]

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalized(text: str) -> str:
    """Lower case without ASCII punctuation, English articles, and runs of white space."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def best_exact(predicted: str, gold: Sequence[str]) -> float:
    """1 if the normalised prediction equals one of the normalised gold answers."""
    return float(any(normalized(predicted) == normalized(answer) for answer in gold))


def best_f1(predicted: str, gold: Sequence[str], *, empty_matches: bool = False) -> float:
    """The highest F1 of shared words over the gold answers.

    Where nothing is left of an answer, no word is shared: 0, as in SQuAD v1.1's evaluation (Rajpurkar et al. 2016).
    With ``empty_matches`` nothing is right about nothing, as in v2's (Rajpurkar et al. 2018).
    """
    return max(
        _f1(normalized(predicted).split(), normalized(answer).split(), empty_matches) for answer in gold
    )


def _f1(predicted: list[str], gold: list[str], empty_matches: bool) -> float:
    if not predicted or not gold:
        return float(empty_matches and predicted == gold)
    shared = (Counter(predicted) & Counter(gold)).total()
    return 2 * shared / (len(predicted) + len(gold))


def swept_threshold(sample: Array) -> tuple[Any, Any]:
    """The best mean score when answers above some probability of having none are withdrawn, and that probability.

    The columns of ``sample`` (..., item, 4) are the score of the answer given, 1 for questions that have an answer, 1
    where an answer was given, and the probability that there is none. A withdrawn answer is right about a question
    without one. This is the sweep of SQuAD v2's evaluation: by rising probability, one item at a time, beginning with
    all withdrawn (threshold 0).
    """
    score, has, given, none = np.moveaxis(np.asarray(sample, float), -1, 0)
    order = np.argsort(none, axis=-1, kind="stable")
    gains = np.take_along_axis(np.where(has > 0, score, -given), order, -1)
    start = (has == 0).sum(-1)
    sums = np.concatenate([start[..., None], start[..., None] + gains.cumsum(-1)], axis=-1)
    best = sums.argmax(-1)
    thresholds = np.concatenate(
        [np.zeros((*none.shape[:-1], 1)), np.take_along_axis(none, order, -1)], axis=-1
    )
    found = np.take_along_axis(thresholds, best[..., None], -1)[..., 0]
    return sums.max(-1) / score.shape[-1], found


def threshold_measure(sample: Array) -> Any:
    """The best mean score of :func:`swept_threshold`, as a measure."""
    return swept_threshold(sample)[0]
