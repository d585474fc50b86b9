"""Ettinger's (2020) psycholinguistic diagnostics: CPRAG-102, ROLE-88 and NEG-136."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from challenge_sets.readers._rows import Row, one_of, table_rows
from workbench.data.grammar import indefinite_article
from workbench.data.tables import find_table
from workbench.errors import DataError

__all__ = ["CpragItem", "NegItem", "RoleItem", "read_cprag", "read_neg", "read_role"]

_ARTICLE = "(a|an)"
_ROLE_ID = re.compile(r"(\d+)-([ab])")


class CpragItem(NamedTuple):
    """Two sentences, the second unfinished, and three endings: expected, a near one and a far one.

    ``constraint`` is ``high`` where people agree on the expected word.
    """

    id: str
    context: str
    expected: str
    within_category: str
    between_category: str
    constraint: str


class RoleItem(NamedTuple):
    """An unfinished sentence; items of one ``pair`` differ in which noun is agent.

    ``expected`` are people's most frequent endings, ``target`` the word compared across the pair, each with
    its cloze probability.
    """

    id: str
    pair: str
    context: str
    expected: tuple[str, ...]
    expected_cloze: float
    target: str
    target_cloze: float


class NegItem(NamedTuple):
    """An unfinished sentence with and without negation; each target is true of one of them.

    ``licensed`` says whether the negation is natural (NAT only, None for SIMP).
    """

    id: str
    affirmative: str
    negative: str
    target_affirmative: str
    target_negative: str
    licensed: bool | None

    def contexts(self, target: str) -> tuple[str, str]:
        """The affirmative and the negative context, with the article that ``target`` takes."""
        article = indefinite_article(target)
        return self.affirmative.replace(_ARTICLE, article), self.negative.replace(_ARTICLE, article)


def read_cprag(path: Path | str) -> Iterator[CpragItem]:
    """The 34 items of ``CPRAG-102.tsv``, or of its folder; each has three targets, hence 102."""
    columns = (
        "item",
        "context_s1",
        "context_s2",
        "expected",
        "within_category",
        "between_category",
        "constraint",
    )
    for row in table_rows(find_table(path, columns, "CPRAG-102.tsv"), columns):
        level = one_of(row["constraint"], ("H", "L"), row.where, "constraint")
        yield CpragItem(
            id=row["item"],
            context=f"{row['context_s1'].strip()} {row['context_s2'].strip()}",
            expected=row["expected"],
            within_category=row["within_category"],
            between_category=row["between_category"],
            constraint="high" if level == "H" else "low",
        )


def read_role(path: Path | str) -> Iterator[RoleItem]:
    """The 88 items of ``ROLE-88.tsv``, or of its folder: 44 pairs, ids ending in ``a`` and ``b``."""
    columns = ("item", "context", "expected", "exp_cloze", "target", "tgt_cloze")
    for row in table_rows(find_table(path, columns, "ROLE-88.tsv"), columns):
        match = _ROLE_ID.fullmatch(row["item"])
        if match is None:
            raise DataError(f"{row.where}: item must be a number with -a or -b, is {row['item']!r:.40}")
        yield RoleItem(
            id=row["item"],
            pair=match[1],
            context=row["context"].strip(),
            expected=tuple(row["expected"].split("|")),
            expected_cloze=row.decimal("exp_cloze"),
            target=row["target"],
            target_cloze=row.decimal("tgt_cloze"),
        )


def _licensed(row: Row) -> bool | None:
    if "licensing" not in row.fields:
        return None
    return one_of(row["licensing"], ("Y", "N"), row.where, "licensing") == "Y"


def read_neg(path: Path | str, part: str = "SIMP") -> Iterator[NegItem]:
    """The items of ``NEG-136-SIMP.tsv`` (18) or ``NEG-136-NAT.tsv`` (16), or that ``part`` in its folder."""
    columns = ("item", "context_aff", "context_neg", "target_aff", "target_neg")
    natural = ("licensing",)
    needs, without = (columns, natural) if part == "SIMP" else ((*columns, *natural), ())
    for row in table_rows(find_table(path, needs, f"NEG-136-{part}.tsv", without=without), columns):
        yield NegItem(
            id=row["item"],
            affirmative=row["context_aff"].strip(),
            negative=row["context_neg"].strip(),
            target_affirmative=row["target_aff"],
            target_negative=row["target_neg"],
            licensed=_licensed(row),
        )
