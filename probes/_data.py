"""What is probed: sentences, places in them, and a label for each item."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

import numpy as np

from workbench.choices import as_members
from workbench.data import DataIdentity
from workbench.errors import DataError
from workbench.shapes import Array
from workbench.terminal import counted

__all__ = ["Place", "ProbeData", "ProbeItem", "Unit", "Words", "joined", "places_hash"]


class Unit(StrEnum):
    """What an item is about."""

    WORD = "word"
    SPAN = "span"
    PAIR = "pair"
    SENTENCE = "sentence"


class Place(NamedTuple):
    """Words ``start`` to ``stop`` (half-open, from 0) of sentence number ``sentence``."""

    sentence: int
    start: int
    stop: int


@dataclass(frozen=True)
class Words:
    """A sentence that is split into words; ``name`` says where it comes from (its id, or file and line)."""

    forms: tuple[str, ...]
    space_after: tuple[bool, ...] | None = None
    document: str = ""
    name: str = ""


@dataclass(frozen=True)
class ProbeItem:
    """One or two places and their label; ``type`` is what a control task labels at random (a word's form)."""

    places: tuple[Place, ...]
    label: str
    type: str


@dataclass(frozen=True)
class ProbeData:
    """The items of a task over some sentences. ``about`` says in words what the label is."""

    task: str
    unit: Unit
    sentences: tuple[Words, ...]
    items: tuple[ProbeItem, ...]
    identity: DataIdentity
    about: str = ""

    def __post_init__(self) -> None:
        as_members(self)
        for item in self.items:
            for place in item.places:
                size = len(self.sentences[place.sentence].forms)
                if not 0 <= place.start < place.stop <= size:
                    name = self.sentences[place.sentence].name or f"sentence {place.sentence}"
                    raise DataError(
                        f"{name}: words {place.start} to {place.stop} are labelled, but it has {counted(size, 'word')}"
                    )

    def __len__(self) -> int:
        return len(self.items)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The label of each item."""
        return tuple(item.label for item in self.items)

    @cached_property
    def sentence_of(self) -> Array:
        """The sentence of each item's first place (item,): what is independent of what."""
        return np.array([item.places[0].sentence for item in self.items], dtype=np.int64)

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """All places, each once, in order."""
        return tuple(sorted({place for item in self.items for place in item.places}))

    @cached_property
    def place_rows(self) -> Array:
        """Position in :attr:`places` of each item's places (item, place)."""
        position = {place: row for row, place in enumerate(self.places)}
        return np.array([[position[p] for p in item.places] for item in self.items], dtype=np.int64)

    def text(self, item: int) -> str:
        """The words of an item, its places joined by a bar."""
        return " | ".join(
            " ".join(self.sentences[p.sentence].forms[p.start : p.stop]) for p in self.items[item].places
        )


def joined(first: ProbeData, second: ProbeData) -> ProbeData:
    """The items of both, the first's sentences in front; both must be of one task."""
    shift = len(first.sentences)
    moved = tuple(
        replace(item, places=tuple(place._replace(sentence=place.sentence + shift) for place in item.places))
        for item in second.items
    )
    names, hashes = (first.identity, second.identity), hashlib.sha256()
    for identity in names:
        hashes.update(identity.sha256.encode())
    return ProbeData(
        task=first.task,
        unit=first.unit,
        sentences=first.sentences + second.sentences,
        items=first.items + moved,
        identity=DataIdentity(
            name="+".join(identity.name for identity in names),
            source="+".join(identity.source for identity in names),
            sha256=hashes.hexdigest(),
            rows=len(first.items) + len(second.items),
        ),
        about=first.about,
    )


def places_hash(sentences: Sequence[Words], places: Sequence[Place]) -> str:
    """SHA-256 over the words, their spacing and the places: what features depend on beside the model."""
    digest = hashlib.sha256()
    for words in sentences:
        line = json.dumps([words.forms, words.space_after], ensure_ascii=True)
        digest.update(line.encode())
    digest.update(np.array(places, dtype=np.int64).tobytes())
    return digest.hexdigest()
