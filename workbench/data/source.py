"""Where a benchmark's rows lie, in a folder or on the hub, and how one record becomes a row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from workbench.characters import check_text
from workbench.data._dataset import DataIdentity, Dataset, content_hash
from workbench.data.files import find_file
from workbench.data.hub import HubName, hub_splits, reading
from workbench.data.tables import read_table
from workbench.errors import DataError

__all__ = ["Files", "Hub", "MissingData", "Record", "Source", "field_of", "label_of"]

Record = Mapping[str, Any]
VALIDATION = "validation"


class MissingData(DataError):
    """None of the files looked for is there, or the hub does not answer."""


class _Row(Protocol):
    @property
    def id(self) -> str:
        """Names the row in results."""


Row = TypeVar("Row", bound=_Row)
Files = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Hub:
    """A data set on the hub; ``splits`` where its names differ from train, validation and test."""

    path: str
    configuration: str | None = None
    splits: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Source(Generic[Row]):
    """``files`` gives the names tried for each split, ``parse`` the rows of one record.

    ``parse`` takes the record, where it stands (file and line) and the id its row should have; it may give
    several rows, or none for records that the benchmark leaves out.
    """

    name: str
    files: Files
    parse: Callable[[Record, str, str], Iterable[Row]]
    hub: Hub | None = None
    records: Callable[[Path], Iterable[tuple[str, Record]]] | None = None

    def read(self, data_dir: Path | None, split: str = VALIDATION) -> Dataset[Row]:
        """All rows of ``split``. Raises :class:`MissingData`, or :class:`~workbench.errors.DataError` for bad ones."""
        where, records = self.raw(data_dir, split)
        rows: list[Row] = []
        for number, (place, record) in enumerate(records):
            rows += self.parse(record, place, f"{self.name}-{number:05d}")
        if not rows:
            raise DataError(f"{where} has no rows for {self.name}")
        return Dataset(tuple(rows), DataIdentity(self.name, where, content_hash(map(repr, rows)), len(rows)))

    def raw(self, data_dir: Path | None, split: str) -> tuple[str, Iterable[tuple[str, Record]]]:
        """Where the split was found, and each of its records with its place; raises as :meth:`read` does."""
        if split not in self.files:
            raise DataError(f"{self.name} has no {split} split; allowed: {', '.join(self.files)}")
        if data_dir is None:
            return self._from_hub(split)
        path = self._find(Path(data_dir), split)
        return str(path), (self.records or read_table)(path)

    def has(self, data_dir: Path | None, split: str) -> bool:
        """Whether the split's file is in the folder; of the hub it is assumed."""
        if split not in self.files:
            return False
        return data_dir is None or any((Path(data_dir) / name).is_file() for name in self.files[split])

    def _find(self, folder: Path, split: str) -> Path:
        try:
            return find_file(folder, *self.files[split])
        except DataError as error:
            raise MissingData(f"{self.name}: {error}") from error

    def _from_hub(self, split: str) -> tuple[str, Iterable[tuple[str, Record]]]:
        names = " or ".join(self.files[split])
        help_line = f"give the folder that holds {names} with --data-dir"
        if self.hub is None:
            raise MissingData(f"{self.name} is read from files only; {help_line}")
        name = HubName(self.hub.path, None, self.hub.configuration, self.hub.splits.get(split, split))
        try:
            rows = hub_splits(name, f"{self.name} from the hub")
        except DataError as error:
            raise MissingData(f"{error}; or {help_line}") from error
        with reading(name):
            found = [(f"{self.hub.path}, row {i}", dict(row)) for i, row in enumerate(rows)]
        return f"hub: {self.hub.path}", found


def field_of(record: Record, where: str, *names: str) -> Any:
    """The first of ``names`` that the record has; raises :class:`~workbench.errors.DataError` naming the column."""
    for name in names:
        if record.get(name) is not None:
            value = record[name]
            return check_text(value, where) if isinstance(value, str) else value
    has = ", ".join(map(str, record)) or "nothing"
    raise DataError(f"{where}: column {' or '.join(map(repr, names))} is missing; it has {has}")


def label_of(value: Any, labels: tuple[str, ...], where: str) -> int:
    """The number of a label given by name, or by number as the hub has it.

    Raises :class:`~workbench.errors.DataError` for labels outside the set.
    """
    if isinstance(value, bool):
        value = int(value)
    if isinstance(value, int) and 0 <= value < len(labels):
        return value
    text = str(value).strip()
    if text in labels:
        return labels.index(text)
    raise DataError(f"{where}: label {value!r} is outside the set; allowed: {', '.join(labels)}")
