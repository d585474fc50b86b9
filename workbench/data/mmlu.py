"""MMLU (Hendrycks et al. 2021): one headerless CSV a subject, in the folders dev, val and test."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from workbench.data._dataset import DataIdentity, Dataset, content_hash
from workbench.data.rows import Choices
from workbench.data.source import Hub, MissingData, Record, Source, field_of, label_of
from workbench.data.tables import read_table

__all__ = ["mmlu_split", "read_mmlu"]

_LETTERS = ("A", "B", "C", "D")
_FOLDERS = {"train": "dev", "validation": "val", "test": "test"}


def mmlu_split(data_dir: Path | None) -> str:
    """The split to evaluate: test, or what the folder has instead."""
    if data_dir is None:
        return "test"
    found = [s for s in ("test", "validation", "train") if _paths(data_dir, s)]
    if not found:
        raise MissingData(
            f"mmlu: no test/*_test.csv, val/*_val.csv or dev/*_dev.csv in {data_dir}; "
            "unpack the official archive there"
        )
    return found[0]


def read_mmlu(data_dir: Path | None, split: str) -> Dataset[Choices]:
    """All subjects of a split in the order of their names; ``subject`` is the file's name without its ending."""
    if data_dir is None:
        return _HUB.read(None, split)
    paths = _paths(data_dir, split)
    if not paths:
        folder = _FOLDERS[split]
        raise MissingData(f"mmlu: no {folder}/*_{folder}.csv in {data_dir}")
    rows = [row for path in paths for row in _subject(path, _FOLDERS[split])]
    identity = DataIdentity("mmlu", str(paths[0].parent), content_hash(map(repr, rows)), len(rows))
    return Dataset(tuple(rows), identity)


def _paths(data_dir: Path, split: str) -> list[Path]:
    ending = _FOLDERS[split]
    for folder in (data_dir, data_dir / "mmlu", data_dir / "data"):
        found = sorted((folder / ending).glob(f"*_{ending}.csv")) if (folder / ending).is_dir() else []
        if found:
            return found
    return []


def _subject(path: Path, ending: str) -> Iterable[Choices]:
    subject = path.stem.removesuffix(f"_{ending}")
    for number, (where, row) in enumerate(read_table(path, ("question", *_LETTERS, "answer"))):
        gold = label_of(row["answer"], _LETTERS, where)
        choices = tuple(row[letter] for letter in _LETTERS)
        name = f"mmlu-{subject}-{number:04d}"
        yield Choices(name, row["question"].strip(), choices, (gold,), subject=subject)


def _parse(record: Record, where: str, row: str) -> list[Choices]:
    gold = label_of(field_of(record, where, "answer"), _LETTERS, where)
    choices = tuple(map(str, field_of(record, where, "choices")))
    return [Choices(row, str(record["question"]).strip(), choices, (gold,), subject=str(record["subject"]))]


_HUB: Source[Choices] = Source(
    name="mmlu",
    files={"train": ("dev",), "validation": ("val",), "test": ("test",)},
    parse=_parse,
    hub=Hub("cais/mmlu", "all", {"train": "dev"}),
)
