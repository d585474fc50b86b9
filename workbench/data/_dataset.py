"""Records of a data set: its items, and which data they were."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Generic, TypeVar

from workbench.errors import DataError

__all__ = ["DataIdentity", "Dataset", "check_ids", "content_hash"]

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
    """Raise :class:`~workbench.errors.DataError` if two items have one id: their results could not be told apart."""
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
