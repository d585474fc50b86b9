"""BLiMP (Warstadt et al. 2020): the official JSONL files, or all pairs as one table of four columns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from challenge_sets._records import MinimalPair
from challenge_sets.readers._rows import table_rows
from workbench.data.files import read_jsonl, text_field
from workbench.data.tables import read_table as read_records
from workbench.errors import DataError

__all__ = [
    "human_accuracy",
    "phenomenon_of",
    "published_accuracy",
    "read",
    "read_jsonl_file",
    "read_parquet",
    "read_table",
]

_COLUMNS = ("UID", "pair_id", "sentence_good", "sentence_bad")
# Terms of the data files that the paper counts under another phenomenon (its table 1 has twelve).
_MERGED = {"s-selection": "argument_structure"}


@cache
def _phenomena() -> dict[str, str]:
    text = files("challenge_sets.readers").joinpath("blimp_phenomena.json").read_text(encoding="utf-8")
    return {
        paradigm: phenomenon for phenomenon, paradigms in json.loads(text).items() for paradigm in paradigms
    }


def phenomenon_of(paradigm: str) -> str:
    """The one of the paper's twelve phenomena to which a paradigm belongs; ``other`` for an unknown one."""
    return _phenomena().get(paradigm, "other")


def _pair(uid: str, pair_id: str, good: str, bad: str, metadata: dict[str, str]) -> MinimalPair:
    term = metadata.get("linguistics_term")
    phenomenon = _MERGED.get(term, term) if term else phenomenon_of(uid)
    return MinimalPair(f"{uid}-{pair_id}", "blimp", uid, phenomenon, good, bad, metadata)


def _details(record: dict[str, Any]) -> dict[str, str]:
    """All further fields as text: the flags of the methods, and the prefixes where they apply."""
    skipped = {"UID", "sentence_good", "sentence_bad"}
    return {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in record.items()
        if key not in skipped
    }


def read_jsonl_file(path: Path | str) -> Iterator[MinimalPair]:
    """Pairs of one official file, in order, with all its fields as metadata."""
    for number, record in read_jsonl(path):
        yield _from_record(record, number - 1, f"{path}, line {number}")


def _from_record(record: dict[str, Any], index: int, where: str) -> MinimalPair:
    good, bad = text_field(record, "sentence_good", where), text_field(record, "sentence_bad", where)
    uid = text_field(record, "UID", where)
    # The id is a string in the official files and a number in some copies.
    pair_id = str(record.get("pairID", record.get("pair_id", index)))
    return _pair(uid, pair_id, good, bad, _details(record))


def read_parquet(path: Path | str) -> Iterator[MinimalPair]:
    """Pairs of one paradigm as the hub's copy has them (``nyu-mll/blimp``), with all fields as metadata."""
    for index, (where, record) in enumerate(read_records(path)):
        yield _from_record(record, index, where)


def read_table(path: Path | str) -> Iterator[MinimalPair]:
    """Pairs of the table with columns UID, pair_id, sentence_good, sentence_bad; quotes are text."""
    for row in table_rows(path, _COLUMNS):
        yield _pair(row["UID"], row["pair_id"], row["sentence_good"], row["sentence_bad"], {})


def read(path: Path | str) -> list[MinimalPair]:
    """All pairs at ``path``: a JSONL file, a table, or a folder.

    In a folder the table comes first (it is complete), then JSONL files, then those in ``data/`` as in the
    official repository, then Parquet in a folder per paradigm as on the hub. Seven official pairs have equal
    members; they are kept, see :attr:`~challenge_sets._records.MinimalPair.members_equal`. Raises
    :class:`~workbench.errors.DataError` naming file and line for bad rows.
    """
    path = Path(path)
    if path.suffix == ".tsv":
        return list(read_table(path))
    if path.is_dir():
        if tables := sorted(path.glob("*.tsv")):
            return list(read_table(tables[0]))
        found = sorted(path.glob("*.jsonl")) or sorted(path.glob("data/*.jsonl"))
        tables = sorted(path.glob("*/*.parquet"))
        if found:
            return [pair for file in found for pair in read_jsonl_file(file)]
        if tables:
            return [pair for file in tables for pair in read_parquet(file)]
        raise DataError(f"no BLiMP files in {path}; it needs *.jsonl, data/*.jsonl or a table *.tsv")
    return list(read_jsonl_file(path))


def human_accuracy(path: Path | str) -> dict[str, float]:
    """Share of validators' forced choices for the good member, by paradigm.

    ``path`` is the official ``human_validation_summary.csv``.
    """
    return {
        row["Condition"]: row.decimal("total_mean") for row in table_rows(path, ("Condition", "total_mean"))
    }


def published_accuracy(path: Path | str) -> dict[str, dict[str, float]]:
    """Published accuracies by paradigm, phenomenon and ``overall``, then by model (``gpt2``, ``lstm``, ...).

    ``path`` is the official ``models_summary.jsonl``, whose last rows are means over phenomena.
    """
    found: dict[str, dict[str, float]] = {}
    for number, record in read_jsonl(path):
        where = f"{path}, line {number}"
        uid = text_field(record, "UID", where)
        group = text_field(record, "linguistics_term", where) if uid == "overall" else uid
        found[group] = {key: float(value) for key, value in record.items() if isinstance(value, (int, float))}
    return found
