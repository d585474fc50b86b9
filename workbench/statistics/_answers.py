"""Answers compared with gold answers: texts (exact match, token F1) and labelled spans (IOB tags)."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

__all__ = ["best_exact", "best_f1", "label_spans", "normalized"]

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


def label_spans(labels: Sequence[str]) -> set[tuple[int, int, str]]:
    """Start, end (exclusive) and type of each span in IOB1 or IOB2 labels; ``I-`` after another type starts one.

    Tjong Kim Sang & De Meulder 2003, section 3. The type of labels that are ``B`` and ``I`` alone is empty.
    """
    spans: set[tuple[int, int, str]] = set()
    start: int = 0
    kind: str | None = None
    for place, label in enumerate([*labels, "O"]):
        mark, _, name = label.partition("-")
        if kind is not None and not (mark == "I" and name == kind):
            spans.add((start, place, kind))
            kind = None
        if kind is None and mark in ("B", "I"):
            start, kind = place, name
    return spans
