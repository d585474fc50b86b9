"""Sentences with their annotation, and phrases as trees: a head word with its dependents on either side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import TypeAlias, TypeVar

__all__ = ["Node", "Sampler", "Sentence", "Word", "linearise", "node"]


@dataclass(frozen=True)
class Word:
    """One word in Universal Dependencies terms: ``index`` counts from 1, the root's ``head`` is 0."""

    index: int
    form: str
    lemma: str
    upos: str
    feats: tuple[tuple[str, str], ...]
    head: int
    deprel: str
    space_after: bool = True

    def feature(self, name: str) -> str | None:
        """The value of a morphological feature such as ``Number``, or None where the word has none."""
        return dict(self.feats).get(name)

    @property
    def number(self) -> str | None:
        """``Sing`` or ``Plur``, on nouns, pronouns and finite verbs."""
        return self.feature("Number")

    @property
    def tense(self) -> str | None:
        """``Past`` or ``Pres``, on verbs."""
        return self.feature("Tense")

    @property
    def person(self) -> str | None:
        """``1``, ``2`` or ``3``, on personal pronouns and finite verbs."""
        return self.feature("Person")

    def to_conllu(self) -> str:
        """The ten columns of CoNLL-U; the language's own tag (XPOS) and the enhanced graph stay empty."""
        feats = "|".join(f"{key}={value}" for key, value in self.feats) or "_"
        misc = "_" if self.space_after else "SpaceAfter=No"
        columns = (
            self.index,
            self.form,
            self.lemma,
            self.upos,
            "_",
            feats,
            self.head,
            self.deprel,
            "_",
            misc,
        )
        return "\t".join(map(str, columns))


@dataclass(frozen=True)
class Sentence:
    """A generated sentence; ``construction`` names the rule that made it."""

    id: str
    words: tuple[Word, ...]
    construction: str

    @property
    def text(self) -> str:
        """The sentence as one would print it."""
        return "".join(word.form + " " * word.space_after for word in self.words).rstrip()

    @property
    def root(self) -> Word:
        """The word that depends on none."""
        return next(word for word in self.words if word.head == 0)

    def dependents(self, word: Word, deprel: str | None = None) -> list[Word]:
        """Words that depend on ``word``, those with one relation if given."""
        return [w for w in self.words if w.head == word.index and deprel in (None, w.deprel)]

    def to_conllu(self) -> str:
        """The sentence as a CoNLL-U block that ends in an empty line."""
        comments = [
            f"# sent_id = {self.id}",
            f"# text = {self.text}",
            f"# construction = {self.construction}",
        ]
        return "\n".join([*comments, *(word.to_conllu() for word in self.words)]) + "\n\n"


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
