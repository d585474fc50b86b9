"""HANS (McCoy et al. 2019): premises that share words with a hypothesis and do, or do not, entail it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from challenge_sets.readers._rows import one_of, table_rows
from workbench.data.tables import find_table

__all__ = ["HEURISTICS", "HansItem", "read"]

HEURISTICS = ("lexical_overlap", "subsequence", "constituent")
_LABELS = ("entailment", "non-entailment")
_COLUMNS = ("gold_label", "sentence1", "sentence2", "pairID", "heuristic", "subcase", "template")


class HansItem(NamedTuple):
    """A premise, a hypothesis, whether it follows, and the heuristic that says it does."""

    id: str
    premise: str
    hypothesis: str
    entailed: bool
    heuristic: str
    subcase: str
    template: str


def read(path: Path | str) -> Iterator[HansItem]:
    """The items of ``heuristics_evaluation_set.txt`` (tab-separated with header), or of its folder, by its columns."""
    file = find_table(path, _COLUMNS, "heuristics_evaluation_set.txt")
    for row in table_rows(file, _COLUMNS):
        yield HansItem(
            id=row["pairID"],
            premise=row["sentence1"],
            hypothesis=row["sentence2"],
            entailed=one_of(row["gold_label"], _LABELS, row.where, "gold_label") == "entailment",
            heuristic=one_of(row["heuristic"], HEURISTICS, row.where, "heuristic"),
            subcase=row["subcase"],
            template=row["template"],
        )
