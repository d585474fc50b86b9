"""Phrases as trees: a head word with its dependents on either side, in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import TypeAlias, TypeVar

from workbench.data.grammar._sentence import Sentence, Word

__all__ = ["Node", "Sampler", "linearise", "node"]

Item = TypeVar("Item")


class Sampler:
    """Draws that depend on the seed alone."""

    def __init__(self, seed: int | str) -> None:
        self._random = Random(seed)

    def pick(self, options: Sequence[Item]) -> Item:
        """One of ``options``, all equally likely."""
        return self._random.choice(options)

    def weighted(self, weights: Mapping[Item, float]) -> Item:
        """One key of ``weights``, in proportion to its weight."""
        return self._random.choices(list(weights), list(weights.values()))[0]

    def chance(self, probability: float) -> bool:
        """True with the given probability."""
        return self._random.random() < probability

    def sample(self, options: Sequence[Item], count: int) -> list[Item]:
        """``count`` different members of ``options``."""
        return self._random.sample(options, count)

    def between(self, low: int, high: int) -> int:
        """An integer from ``low`` to ``high``, both included."""
        return self._random.randint(low, high)


Feats: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Node:
    """A word and its dependents; ``glued`` words follow the one before without a space."""

    form: str
    lemma: str
    upos: str
    deprel: str
    feats: Feats = ()
    before: tuple[Node, ...] = ()
    after: tuple[Node, ...] = ()
    glued: bool = False

    def as_relation(self, deprel: str) -> Node:
        """The same phrase in another relation to its head."""
        return replace(self, deprel=deprel)

    def with_before(self, *nodes: Node | None) -> Node:
        """The phrase with further dependents in front of those it has; None is left out."""
        return replace(self, before=(*(n for n in nodes if n), *self.before))

    def with_after(self, *nodes: Node | None) -> Node:
        """The phrase with further dependents behind those it has; None is left out."""
        return replace(self, after=(*self.after, *(n for n in nodes if n)))

    def attached(self) -> Node:
        """The phrase without a space in front of its head word."""
        return replace(self, glued=True)

    def flat(self) -> list[Node]:
        """The words of the phrase in reading order."""
        left = [word for child in self.before for word in child.flat()]
        return [*left, self, *(word for child in self.after for word in child.flat())]

    @property
    def first(self) -> Node:
        """The leftmost word."""
        return self.before[0].first if self.before else self


def node(form: str, upos: str, deprel: str, *, lemma: str | None = None, **feats: str) -> Node:
    """A word alone; features are keyword arguments, sorted as Universal Dependencies asks."""
    ordered = tuple(sorted(feats.items(), key=lambda item: item[0].lower()))
    return Node(form, form if lemma is None else lemma, upos, deprel, ordered)


def linearise(root: Node, *, sentence_id: str, construction: str) -> Sentence:
    """The sentence under ``root``: indices from 1, heads resolved, the first letter in upper case."""
    order = root.flat()
    position = {id(word): index for index, word in enumerate(order, start=1)}
    heads = {id(child): position[id(word)] for word in order for child in (*word.before, *word.after)}
    words = [
        Word(
            index=index,
            form=_capitalised(word.form) if index == 1 else word.form,
            lemma=word.lemma,
            upos=word.upos,
            feats=word.feats,
            head=heads.get(id(word), 0),
            deprel=word.deprel,
            space_after=index == len(order) or not order[index].glued,
        )
        for index, word in enumerate(order, start=1)
    ]
    return Sentence(sentence_id, tuple(words), construction)


def _capitalised(form: str) -> str:
    return form[:1].upper() + form[1:]
