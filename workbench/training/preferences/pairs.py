"""The pairs to train on and those held out, checked."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from workbench.data.rows import Preference
from workbench.data.tables import read_table, table_name
from workbench.errors import DataError
from workbench.terminal import counted

__all__ = ["PairRows", "load_pairs"]


@dataclass(frozen=True)
class PairRows:
    """Pairs to train on and to validate on, with the name of where they came from."""

    name: str
    train: tuple[Preference, ...]
    validation: tuple[Preference, ...]

    @property
    def sha256(self) -> str:
        """Of the pairs' content, in order."""
        digest = hashlib.sha256()
        for pair in (*self.train, *self.validation):
            digest.update(json.dumps(asdict(pair), sort_keys=True).encode())
        return digest.hexdigest()


def load_pairs(
    data: str | Path, *, validation: str | Path | None = None, limit: int | None = None, seed: int = 0
) -> PairRows:
    """The pairs in ``data``, a tenth of the prompts held out where ``validation`` gives none.

    Raises :class:`~workbench.errors.DataError` for a file without pairs, empty replies and equal ones.
    """
    pairs = _read(data)
    if validation is None:
        train, held_out = _split(pairs, seed)
    else:
        train, held_out = pairs, _read(validation)
    rows = PairRows(table_name(data), tuple(train[:limit]), tuple(held_out))
    for pair in (*rows.train, *rows.validation):
        _check(pair)
    if not rows.train or not rows.validation:
        raise DataError(f"{data} has {counted(len(pairs), 'pair')}, too few to train on and to hold some out")
    return rows


def _read(data: str | Path) -> list[Preference]:
    columns = ("prompt", "chosen", "rejected")
    return [
        Preference(str(row.get("id", number)), *(str(row[c]) for c in columns))
        for number, (_, row) in enumerate(read_table(data, needs=columns))
    ]


def _check(pair: Preference) -> None:
    for name in ("chosen", "rejected"):
        if not getattr(pair, name).strip():
            raise DataError(f"pair {pair.id}: the {name} reply is empty; remove the pair")
    if pair.chosen == pair.rejected:
        raise DataError(
            f"pair {pair.id}: chosen and rejected are equal, {pair.chosen!r:.40}; remove the pair"
        )


def _split(pairs: Sequence[Preference], seed: int) -> tuple[list[Preference], list[Preference]]:
    prompts = sorted({pair.prompt for pair in pairs})
    random.Random(seed).shuffle(prompts)
    held_out = set(prompts[: max(1, len(prompts) // 10)])
    sides: tuple[list[Preference], list[Preference]] = ([], [])
    for pair in pairs:
        sides[pair.prompt in held_out].append(pair)
    return sides
