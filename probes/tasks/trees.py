"""Tasks on spans and pairs of words, from trees."""

from __future__ import annotations

import random

from probes._data import Place, ProbeData, ProbeItem, Unit
from probes.tasks._sources import Treebank, subtree
from probes.tasks._task import ProbeTask, register

__all__ = ["TREE_TASKS"]

NO_CONSTITUENT = "none"


def _constituents(treebank: Treebank, seed: int) -> ProbeData:
    """Spans of two words and more under one head, and as many others of the same lengths."""
    draw = random.Random(seed)
    items: list[ProbeItem] = []
    for number, tree in enumerate(treebank.trees):
        size = len(tree.words)
        spans = {
            span: tree.words[w].upos
            for w in range(size)
            if (span := subtree(tree, w)) is not None and 1 < span[1] - span[0] < size
        }
        for (start, stop), label in spans.items():
            items.append(_span(treebank, number, start, stop, label))
            free = [s for s in range(size - stop + start + 1) if (s, s + stop - start) not in spans]
            if free:
                other = draw.choice(free)
                items.append(_span(treebank, number, other, other + stop - start, NO_CONSTITUENT))
    return treebank.data("constituent", Unit.SPAN, items, _CONSTITUENT)


def _span(treebank: Treebank, sentence: int, start: int, stop: int, label: str) -> ProbeItem:
    form = " ".join(treebank.words[sentence].forms[start:stop]).lower()
    return ProbeItem((Place(sentence, start, stop),), label, form)


def _arcs(treebank: Treebank, seed: int) -> ProbeData:
    """Each word with its head: which relation holds between them."""
    items = []
    for number, tree in enumerate(treebank.trees):
        for w, word in enumerate(tree.words):
            if word.head is not None and word.relation != "punct":
                pair = (Place(number, w, w + 1), Place(number, word.head, word.head + 1))
                form = f"{word.form} {tree.words[word.head].form}".lower()
                items.append(ProbeItem(pair, word.relation.partition(":")[0], form))
    return treebank.data("arc", Unit.PAIR, items, _ARC)


_CONSTITUENT = (
    "the part of speech of the head of a span that is the subtree of a word, or none for a span that is not"
)
_ARC = "the relation of a word to its head, both words given"

TREE_TASKS = (
    register(ProbeTask("constituent", Unit.SPAN, _CONSTITUENT, build=_constituents)),
    register(ProbeTask("arc", Unit.PAIR, _ARC, build=_arcs)),
)
