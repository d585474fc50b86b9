"""Registries of the things that users extend: tasks, suites, probes, saliency methods, metrics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from workbench.errors import UnknownName

__all__ = ["Registry"]

Item = TypeVar("Item")


class Registry(Generic[Item]):
    """Named objects of one type; an unknown name is answered with the nearest known ones."""

    def __init__(self, noun: str) -> None:
        self.noun = noun
        self._items: dict[str, Item] = {}

    def register(self, name: str, item: Item) -> Item:
        """Add ``item`` under ``name``; raises ``ValueError`` if the name is taken."""
        if name in self._items:
            raise ValueError(f"{self.noun} {name!r} is registered already")
        self._items[name] = item
        return item

    def get(self, name: str) -> Item:
        """The item called ``name``; raises :class:`~workbench.errors.UnknownName` with near names."""
        try:
            return self._items[name]
        except KeyError:
            raise UnknownName(self.noun, name, list(self._items)) from None

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._items)

    def __contains__(self, name: object) -> bool:
        return name in self._items

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self._items)
