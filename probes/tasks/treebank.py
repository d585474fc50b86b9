"""Tasks on single words, spans and pairs of words, from trees."""

from __future__ import annotations

import random
from collections.abc import Callable

from probes._data import Place, ProbeData, ProbeItem, Unit
from probes.tasks._task import ProbeTask, Treebank, depths, feature, register, subtree
from workbench.data.conllu import ConlluSentence

__all__ = ["TREE_TASKS", "WORD_TASKS"]

# The labels of one sentence's words; None leaves a word out.
Labels = Callable[[ConlluSentence], list[str | None]]
_LARGEST_DISTANCE, _LARGEST_DEPTH = 6, 7


def _given(value: str) -> str | None:
    return None if value == "_" else value


def _by_feature(name: str) -> Labels:
    return lambda tree: [feature(word, name) for word in tree.words]


def _head_distance(tree: ConlluSentence) -> list[str | None]:
    """Position of the head minus that of the word, within 6 either way; the root has none."""
    gaps = [None if w.head is None else w.head - i for i, w in enumerate(tree.words)]
    return [
        None if gap is None else f"{max(-_LARGEST_DISTANCE, min(_LARGEST_DISTANCE, gap)):+d}" for gap in gaps
    ]


def _depth(tree: ConlluSentence) -> list[str | None]:
    return [str(min(depth, _LARGEST_DEPTH)) for depth in depths(tree)]


def _task(name: str, about: str, labels: Labels) -> ProbeTask:
    def build(treebank: Treebank, seed: int) -> ProbeData:
        items = [
            ProbeItem((Place(number, w, w + 1),), label, tree.words[w].form.lower())
            for number, tree in enumerate(treebank.trees)
            for w, label in enumerate(labels(tree))
            if label is not None
        ]
        return treebank.data(name, Unit.WORD, items, about)

    return register(ProbeTask(name, Unit.WORD, about, build=build))


WORD_TASKS = (
    _task("pos", "the universal part of speech (UPOS)", lambda t: [_given(w.upos) for w in t.words]),
    _task("xpos", "the treebank's own part of speech (XPOS)", lambda t: [_given(w.xpos) for w in t.words]),
    _task(
        "deprel",
        "the relation to its head, without subtype",
        lambda t: [_given(w.relation.partition(":")[0]) for w in t.words],
    ),
    _task(
        "head_distance",
        "where its head is: words to the right, -6 to +6, farther counts as 6",
        _head_distance,
    ),
    _task("tree_depth", "arcs from it to the root of its sentence, 7 for more", _depth),
    _task("number", "the feature Number of words that have one", _by_feature("Number")),
    _task("tense", "the feature Tense of words that have one", _by_feature("Tense")),
    _task("person", "the feature Person of words that have one", _by_feature("Person")),
)


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
