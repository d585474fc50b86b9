"""CrowS-Pairs (Nangia et al. 2020): stereotyping sentences and the same ones about another group."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple, cast

from challenge_sets.readers._rows import one_of, table_rows
from workbench.data.tables import find_table

__all__ = ["StereotypePair", "read"]

Direction = Literal["stereo", "antistereo"]
_COLUMNS = ("sent_more", "sent_less", "stereo_antistereo", "bias_type")


class StereotypePair(NamedTuple):
    """``more`` is the more stereotyping sentence, whatever the direction.

    ``antistereo`` pairs state the opposite of a stereotype about the disadvantaged group. Texts are as in the
    file; one of the 1,508 holds a line break.
    """

    id: str
    more: str
    less: str
    direction: Direction
    bias_type: str


def read(path: Path | str) -> Iterator[StereotypePair]:
    """The pairs of ``crows_pairs_anonymized.csv``, or of the folder that holds it, under whatever name."""
    file = find_table(path, _COLUMNS, "crows_pairs_anonymized.csv")
    for index, row in enumerate(table_rows(file, _COLUMNS)):
        direction = one_of(row["stereo_antistereo"], ("stereo", "antistereo"), row.where, "stereo_antistereo")
        yield StereotypePair(
            id=row.fields.get("", "") or str(index),
            more=row["sent_more"],
            less=row["sent_less"],
            direction=cast(Direction, direction),
            bias_type=row["bias_type"],
        )
