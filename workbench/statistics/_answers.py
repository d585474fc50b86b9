"""Answers as texts: SQuAD's exact match and F1 (Rajpurkar et al. 2016, section 6.1)."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

__all__ = ["best_exact", "best_f1", "normalized"]

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalized(text: str) -> str:
    """Lower case without ASCII punctuation, English articles, and runs of white space."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def best_exact(predicted: str, gold: Sequence[str]) -> float:
    """1 if the normalised prediction equals one of the normalised gold answers."""
    return float(any(normalized(predicted) == normalized(answer) for answer in gold))


def best_f1(predicted: str, gold: Sequence[str]) -> float:
    """The highest F1 of shared words over the gold answers."""
    return max(_f1(normalized(predicted).split(), normalized(answer).split()) for answer in gold)


def _f1(predicted: list[str], gold: list[str]) -> float:
    if (
        not predicted or not gold
    ):  # as SQuAD's rule has it since version 2: nothing is right about nothing only
        return float(predicted == gold)
    shared = (Counter(predicted) & Counter(gold)).total()
    return 2 * shared / (len(predicted) + len(gold))
