"""Records of a data set: its items, which data they were, and which items a limit keeps."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from workbench.errors import DataError

__all__ = ["DataIdentity", "Dataset", "check_ids", "content_hash", "spread"]

Item = TypeVar("Item", covariant=True)


@dataclass(frozen=True)
class DataIdentity:
    """Which data: ``sha256`` is over the items' content, so the same data from hub or folder is equal."""

    name: str
    source: str
    sha256: str
    rows: int

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionary for ``run.json``."""
        return asdict(self)


@dataclass(frozen=True)
class Dataset(Generic[Item]):
    """Items in their order, and their identity."""

    items: tuple[Item, ...]
    identity: DataIdentity

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)

    def head(self, limit: int | None) -> tuple[Item, ...]:
        """The first ``limit`` items; all of them for ``None``."""
        return self.items[:limit]


def check_ids(ids: Sequence[str], name: str) -> None:
    """Raise :class:`~workbench.errors.DataError` if two items have one id: their results could not be distinguished."""
    twice = [identifier for identifier, count in Counter(ids).items() if count > 1]
    if twice:
        raise DataError(
            f"{name}: {len(twice)} of {len(ids)} ids stand for several items, first {twice[0]!r}; "
            "give each item an id of its own"
        )


def content_hash(texts: Iterable[str]) -> str:
    """SHA-256 over the texts in order, each preceded by its length in bytes."""
    digest = hashlib.sha256()
    for text in texts:
        content = text.encode("utf-8", "surrogatepass")
        digest.update(len(content).to_bytes(8, "big"))
        digest.update(content)
    return digest.hexdigest()


def spread(groups: Sequence[str | None], limit: int | None, seed: int) -> list[int]:
    """Positions, in order, of at most ``limit`` items, as equally many of each group as there are.

    Of each group the first items are taken; ``seed`` draws which groups have one more where ``limit`` does not divide.
    Data of one group, or without groups (``None``), give its first items.
    """
    if limit is None or limit >= len(groups):
        return list(range(len(groups)))
    members: dict[str | None, list[int]] = {}
    for position, group in enumerate(groups):
        members.setdefault(group, []).append(position)
    columns = list(members.values())
    order = np.random.default_rng(seed).permutation(len(columns))
    rank = {column: int(place) for place, column in enumerate(order)}
    # (how many of its group come before, the group's place in the draw): a round of all groups, then the next one
    turns = [
        (turn, rank[number], position)
        for number, column in enumerate(columns)
        for turn, position in enumerate(column)
    ]
    return sorted(position for _, _, position in sorted(turns)[:limit])
