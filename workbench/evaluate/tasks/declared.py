"""The keys that declare a task, and the rows that they name."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from workbench.data import DataIdentity, Dataset, content_hash
from workbench.data.hub import is_hub_name
from workbench.data.source import Record, Source
from workbench.data.tables import read_table
from workbench.errors import ConfigError, DataError

__all__ = ["Declared", "listed", "text_key", "texts_key"]

_NO_COLUMNS = ("name", "type", "about", "rows", "data", "labels", "words", "stop", "metrics", "pattern")
# the column of a key that is not given
_USUAL = {**{key: key for key in ("text", "label", "answer", "continuation")}, "choices": "candidates"}
# names of example rows' columns that metrics, comparisons and notes read
_OF_RESULTS = {
    *("applied", "asked", "bytes", "capability", "cluster", "correct", "correct_bytes", "correct_norm"),
    *("finished", "gold", "greedy", "group", "id", "inside_token", "label", "log_probability"),
    *("no_answer_probability", "not_scored", "predicted", "prediction", "rank", "subject", "subtask"),
    *("target", "task", "template", "test", "text", "tokens", "truncated", "words"),
}


@dataclass(frozen=True, kw_only=True)
class _OwnRows(Source[Any]):
    """The rows that the file holds or names; a data folder is not asked for them."""

    files: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: {"validation": ()})
    place: str
    leaves_out: str = ""
    records_here: tuple[tuple[str, Record], ...]

    def read(self, data_dir: Path | None, split: str = "validation") -> Dataset[Any]:
        """All rows, whatever the split."""
        rows = [
            row
            for number, (where, record) in enumerate(self.records_here)
            for row in self.parse(record, where, _item_id(self.name, number))
        ]
        if not rows:
            raise DataError(
                f"{self.place}: none of its {len(self.records_here)} rows can be used{self.leaves_out}"
            )
        identity = DataIdentity(self.name, self.place, content_hash(map(repr, rows)), len(rows))
        return Dataset(tuple(rows), identity)

    def has(self, data_dir: Path | None, split: str) -> bool:
        """There is one split."""
        return split == "validation"


def _item_id(name: str, number: int) -> str:
    return f"{name}-{number:05d}"


@dataclass(frozen=True)
class Declared:
    """A file and its keys."""

    file: Path
    values: Mapping[str, Any]

    def text(self, key: str, default: str | None = None) -> str:
        """A key's text."""
        return (
            default
            if key not in self.values and default is not None
            else text_key(self.values, key, self.file)
        )

    def source(self, parse: Callable[[Record, str, str], Iterable[Any]], leaves_out: str = "") -> Source[Any]:
        """The rows, each made by ``parse``, which may leave some out; ``leaves_out`` says why in an error."""
        place, records = self._records()
        if not records:
            raise DataError(f"{self.file} has no rows")
        return _OwnRows(
            name=self.text("name"), parse=parse, place=place, leaves_out=leaves_out, records_here=records
        )

    def columns(self) -> dict[str, dict[str, Any]]:
        """By item id, the cells that no key reads: texts, numbers and truth values, to slice by.

        A column whose name has a meaning in results, such as ``cluster``, is called ``own_cluster``.
        """
        return {
            _item_id(self.text("name"), number): {
                f"own_{column}" if column in _OF_RESULTS else column: cell
                for column, cell in record.items()
                if isinstance(cell, str | int | float) and not self._reads(column)
            }
            for number, (_, record) in enumerate(self._records()[1])
        }

    def _reads(self, column: str) -> bool:
        """Whether a key names the column, by itself or in a template."""
        given = [value for key, value in {**_USUAL, **self.values}.items() if key not in _NO_COLUMNS]
        return any(
            text == column or f"{{{column}" in text for value in given for text in map(str, listed(value))
        )

    def _records(self) -> tuple[str, tuple[tuple[str, Record], ...]]:
        if ("rows" in self.values) == ("data" in self.values):
            raise ConfigError(f"{self.file}: give the rows under 'rows', or a file of them under 'data'")
        if "data" in self.values:
            given = self.text("data")
            path = Path(given) if is_hub_name(given) else self.file.parent / given
            return str(path), tuple(read_table(path))
        rows = self.values["rows"]
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise ConfigError(f"{self.file}: rows must be a list of mappings from column to value")
        return str(self.file), tuple((f"{self.file}, row {n}", row) for n, row in enumerate(rows, 1))

    def filled(self, template: str, record: Record, where: str) -> str:
        """``template`` with a row's columns."""
        try:
            return template.format_map(record)
        except (KeyError, IndexError, ValueError, AttributeError) as error:
            has = ", ".join(map(str, record))
            raise DataError(
                f"{where}: cannot fill {template!r} ({error!r:.60}); its columns: {has}"
            ) from None


def text_key(values: Mapping[str, Any], key: str, file: Path) -> str:
    """A key's text; raises :class:`~workbench.errors.ConfigError` for anything else."""
    if not isinstance(values.get(key), str) or not values[key]:
        raise ConfigError(f"{file}: {key} must be a text, is {values.get(key)!r:.60}")
    return str(values[key])


def texts_key(value: Any, key: str, file: Path) -> tuple[str, ...]:
    """A key's texts; raises :class:`~workbench.errors.ConfigError` for anything else."""
    if not isinstance(value, list) or not value:
        raise ConfigError(f"{file}: {key} must be a list of texts, is {value!r:.60}")
    return tuple(map(str, value))


def listed(value: Any) -> Sequence[Any]:
    """A list as it is, or written as JSON in a cell of a table; anything else as a list of one."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        with contextlib.suppress(ValueError):
            value = json.loads(value)
    return cast("Sequence[Any]", value) if isinstance(value, list | tuple) else [value]
