"""What all declared tasks share: a name, a version, options, and the examples before a question."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar
from zlib import crc32

import numpy as np
from scipy import special

from workbench.choices import as_members
from workbench.data.source import Source
from workbench.errors import DataError
from workbench.evaluate._options import TaskOptions

__all__ = ["SEPARATOR", "DeclaredTask", "Shots", "draw_shots", "softmax"]

SEPARATOR = "\n\n"


@dataclass(frozen=True, kw_only=True)
class DeclaredTask:
    """Name, one line about it, version (rises whenever numbers can change), and what the user asked for.

    ``columns`` are further columns of example rows by item id, such as those of a user's own table, to slice by.
    """

    name: str
    about: str
    version: int = 1
    options: TaskOptions = field(default_factory=TaskOptions)
    default_split: str = "validation"
    default_shots: int = 0
    columns: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        as_members(self)

    @property
    def split(self) -> str:
        """The part of the data that is evaluated."""
        return self.options.split or self.default_split

    @property
    def shots(self) -> int:
        """Examples before each question."""
        return self.default_shots if self.options.shots is None else self.options.shots


class _Row(Protocol):
    @property
    def id(self) -> str:
        """Names the row in results."""


Row = TypeVar("Row", bound=_Row)


@dataclass(frozen=True)
class Shots:
    """The text before the questions of each group of rows, and ids of rows that were used up for it."""

    texts: dict[str, str]
    used: frozenset[str] = frozenset()

    def before(self, group: str) -> str:
        """The examples, ended so that a question can follow; empty if there are none."""
        text = self.texts.get(group, "")
        return f"{text}{SEPARATOR}" if text else ""


def draw_shots(
    source: Source[Row],
    data_dir: Path | None,
    split: str,
    rows: Sequence[Row],
    count: int,
    seed: int,
    show: Callable[[Row], str],
) -> Shots:
    """``count`` examples, the same before every question, so that the model reads them once.

    They come from the train split. Where there is none they come from the rows themselves, which are then left
    out of the evaluation.
    """
    if not count:
        return Shots({})
    if split != "train" and source.has(data_dir, "train"):
        pool: Sequence[Row] = source.read(data_dir, "train").items
        return Shots({"all": _text(pick(pool, count, seed, source.name), show)})
    chosen = pick(rows, count, seed, source.name)
    return Shots({"all": _text(chosen, show)}, frozenset(row.id for row in chosen))


def pick(pool: Sequence[Row], count: int, seed: int, name: str) -> list[Row]:
    """``count`` rows drawn without replacement; raises :class:`~workbench.errors.DataError` if there are too few."""
    if len(pool) <= count:
        raise DataError(
            f"{name}: {count} examples wanted before each question, of {len(pool)} rows; lower --shots"
        )
    generator = np.random.default_rng([seed, crc32(name.encode())])
    return [pool[i] for i in generator.permutation(len(pool))[:count]]


def _text(rows: Sequence[Row], show: Callable[[Row], str]) -> str:
    return SEPARATOR.join(show(row) for row in rows)


def softmax(values: Sequence[float]) -> list[float]:
    """Shares that sum to 1."""
    return [float(share) for share in special.softmax(values)]
