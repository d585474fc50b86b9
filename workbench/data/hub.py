"""Data sets on the hub by name, ``hub:owner/name[@revision][:configuration[:split]]``, or a folder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from workbench.errors import DataError, needs_extra
from workbench.pretrained import hub_answers

__all__ = ["PREFIX", "HubName", "hub_rows", "hub_splits", "is_hub_name", "reading", "rows_of"]

PREFIX = "hub:"
_ON_THE_HUB = re.compile(r"\w[\w.-]*/\w[\w.-]*")
_NAME = re.compile(r"hub:([^@:]+)(?:@([^@:]+))?(?::([^:]*)(?::([^:]+))?)?")


@dataclass(frozen=True)
class HubName:
    """A data set on the hub: ``path`` is ``owner/name``, or a folder of this machine."""

    path: str
    revision: str | None = None
    configuration: str | None = None
    split: str | None = None

    @classmethod
    def parse(cls, name: str | PathLike[str]) -> HubName:
        """The parts of ``hub:owner/name@revision:configuration:split``, of which all but the first may be left out.

        Raises :class:`~workbench.errors.DataError` for anything else.
        """
        match = _NAME.fullmatch(fspath(name))
        if match is None:
            raise DataError(
                f"{fspath(name)!r:.80} names no data set; write hub:owner/name, and behind it @REVISION, "
                ":CONFIGURATION or :CONFIGURATION:SPLIT (::SPLIT without a configuration)"
            )
        path, revision, configuration, split = match.groups()
        return cls(path, revision, configuration or None, split)

    @property
    def folder(self) -> Path | None:
        """The folder of this machine that is meant, if it is one."""
        return Path(self.path) if Path(self.path).is_dir() else None

    @property
    def name(self) -> str:
        """The last part of the path, which stands for the data set in results."""
        return Path(self.path).name

    def __str__(self) -> str:
        name = f"{PREFIX}{self.path}" + (f"@{self.revision}" if self.revision else "")
        if self.configuration or self.split:
            name += f":{self.configuration or ''}"
        return name + (f":{self.split}" if self.split else "")


def is_hub_name(name: object) -> bool:
    """Whether a user means a data set on the hub, not a file."""
    return str(name).startswith(PREFIX)


def hub_splits(name: HubName, what: str = "", **options: Any) -> Any:
    """What ``datasets.load_dataset`` gives: the split that is named, or all of them by name.

    Without a network, what was fetched before is read. ``what`` names the data in the error where the package is
    missing. Raises :class:`~workbench.errors.DataError`, in one line, for a set that cannot be read.
    """
    try:
        from datasets import load_dataset
    except ImportError:
        raise DataError(needs_extra(what or f"{name}", "datasets", "hub")) from None
    place = _place(name)
    with _reachable(name) as answers, reading(name):
        try:
            return load_dataset(
                place, name.configuration, split=name.split, revision=name.revision, **options
            )
        except (ConnectionError, FileNotFoundError) as error:
            if answers:
                raise
            raise DataError(
                f"cannot read {name}: the hub does not answer, and it was not fetched before ({_reason(error)})"
            ) from error


def _place(name: HubName) -> str:
    """What ``load_dataset`` is given. A single word would be one of its own readers, one of which takes pickles."""
    if name.folder is not None:
        return str(name.folder.resolve())
    if _ON_THE_HUB.fullmatch(name.path) is None:
        raise DataError(
            f"cannot read {name}: {name.path!r} is no folder here, and no data set's name; write hub:owner/name"
        )
    return name.path


@contextmanager
def reading(name: object) -> Iterator[None]:
    """Turns any error of the readers of ``datasets``, of dozens of kinds, into one line that names the set.

    Raises :class:`~workbench.errors.DataError`.
    """
    try:
        yield
    except DataError:
        raise
    except Exception as error:
        raise DataError(f"cannot read {name}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def hub_rows(name: str | PathLike[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Where each row of the named split stands, and its cells by column; class numbers become the classes' names.

    Raises :class:`~workbench.errors.DataError` where several splits are there and none is named.
    """
    parsed = HubName.parse(name)
    found = hub_splits(parsed)
    if parsed.split is None:
        if len(found) > 1:
            last = replace(parsed, split=next(reversed(found)))
            raise DataError(f"{parsed} has the splits {', '.join(found)}; name one: {last}")
        (found,) = found.values()
    with reading(parsed):
        for number, row in enumerate(rows_of(found)):
            yield f"{parsed}, row {number}", row


def rows_of(split: Any) -> Iterator[dict[str, Any]]:
    """The rows of a split, one after another; a number that stands for a class is its name, or ``None`` if for none."""
    classes = {
        column: names
        for column, feature in (split.features or {}).items()
        if (names := getattr(getattr(feature, "feature", feature), "names", None))
    }
    for row in split:
        yield {
            column: _named(cell, classes[column]) if column in classes else cell
            for column, cell in row.items()
        }


def _named(value: Any, names: Sequence[str]) -> Any:
    if isinstance(value, list):
        return [_named(v, names) for v in value]
    return names[value] if value is not None and 0 <= value < len(names) else None


@contextmanager
def _reachable(name: HubName) -> Iterator[bool]:
    """Whether the hub answers, or need not; where it does not its client is kept from trying for half a minute."""
    import datasets
    import huggingface_hub

    if name.folder is not None or hub_answers():
        yield True
        return
    places: tuple[Any, ...] = (datasets.config, huggingface_hub.constants)
    before = [place.HF_HUB_OFFLINE for place in places]
    try:
        for place in places:
            place.HF_HUB_OFFLINE = True
        yield False
    finally:
        for place, value in zip(places, before, strict=True):
            place.HF_HUB_OFFLINE = value
