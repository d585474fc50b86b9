"""Spans in labels of words, as entities are marked."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["label_spans"]


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
