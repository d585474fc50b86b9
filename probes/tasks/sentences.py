"""Tasks on whole sentences after the ten probing tasks of Conneau et al. 2018, made from dependency trees.

Theirs are made from constituency trees and a large corpus: ``top_constituents`` is here of the root's dependents,
``word_content`` of fifty words (theirs a thousand), and ``odd_man_out`` takes a word of like frequency, not of like
bigram frequencies. The depth of the tree is not among them.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator

from probes._data import Place, ProbeData, ProbeItem, Unit, Words
from probes.tasks._task import ProbeTask, Treebank, feature, probe_data, register, subtree
from workbench.data.conllu import ConlluSentence

__all__ = ["SENTENCE_TASKS"]

# A sentence's words, spacing and label; None leaves the sentence out.
Labelled = tuple[Words, str]
_LENGTHS = (5, 8, 12, 16, 20, 25, 28)
_SUBJECTS = ("nsubj", "csubj")


def _length(treebank: Treebank, draw: random.Random) -> Iterator[Labelled]:
    for words in treebank.words:
        bin_number = sum(len(words.forms) > limit for limit in _LENGTHS)
        low = _LENGTHS[bin_number - 1] + 1 if bin_number else 1
        yield words, f"{low} to {_LENGTHS[bin_number]}" if bin_number < len(_LENGTHS) else f"{low} or more"


def _word_content(treebank: Treebank, draw: random.Random) -> Iterator[Labelled]:
    """Which one of the fifty middling frequent content words is in a sentence that has one of them only."""
    content = {"NOUN", "VERB", "ADJ"}
    counts = Counter(w.lemma for t in treebank.trees for w in t.words if w.upos in content)
    chosen = {lemma for lemma, _ in counts.most_common(150)[10:60]}
    for words, tree in zip(treebank.words, treebank.trees, strict=True):
        found = {w.lemma for w in tree.words} & chosen
        if len(found) == 1:
            yield words, found.pop()


def _top_constituents(treebank: Treebank, draw: random.Random) -> Iterator[Labelled]:
    """The root's dependents in order; the nineteen commonest sequences, and one class for all others."""
    labels = [_top(tree) for tree in treebank.trees]
    common = {label for label, _ in Counter(labels).most_common(19)}
    for words, label in zip(treebank.words, labels, strict=True):
        yield words, label if label in common else "other"


def _top(tree: ConlluSentence) -> str:
    root = _root(tree)
    parts = [
        "ROOT" if w == root else word.relation.partition(":")[0]
        for w, word in enumerate(tree.words)
        if w == root or (word.head == root and word.relation != "punct")
    ]
    return " ".join(parts)


def _bigram_shift(treebank: Treebank, draw: random.Random) -> Iterator[Labelled]:
    """Half of the sentences have two neighbouring words swapped."""
    for words in treebank.words:
        if len(words.forms) < 5:
            continue
        at = draw.randrange(1, len(words.forms) - 2)
        swap = draw.random() < 0.5 and words.forms[at].lower() != words.forms[at + 1].lower()
        yield (_swapped(words, at) if swap else words), "swapped" if swap else "original"


def _swapped(words: Words, at: int) -> Words:
    forms = list(words.forms)
    forms[at], forms[at + 1] = forms[at + 1], forms[at]
    return Words(tuple(forms), words.space_after, words.document, words.name)


def _tense(treebank: Treebank, draw: random.Random) -> Iterator[Labelled]:
    for words, tree in zip(treebank.words, treebank.trees, strict=True):
        root = _root(tree)
        finite = [w for w in tree.words if w.relation in ("aux", "cop") and w.head == root]
        values = [v for w in (tree.words[root], *finite) if (v := feature(w, "Tense"))]
        if values and feature(tree.words[root], "VerbForm") != "Inf":
            yield words, values[-1]


def _number_of(relations: tuple[str, ...]) -> Callable[[Treebank, random.Random], Iterator[Labelled]]:
    def number(treebank: Treebank, draw: random.Random) -> Iterator[Labelled]:
        for words, tree in zip(treebank.words, treebank.trees, strict=True):
            root = _root(tree)
            found = [
                value
                for w in tree.words
                if w.head == root
                and w.relation.partition(":")[0] in relations
                and (value := feature(w, "Number"))
            ]
            if len(found) == 1:
                yield words, found[0]

    return number


def _odd_man_out(treebank: Treebank, draw: random.Random) -> Iterator[Labelled]:
    """In half of the sentences a noun or verb is another of the same form class and like frequency."""
    kind = {"NOUN", "VERB"}
    counts = Counter(w.form.lower() for t in treebank.trees for w in t.words if w.upos in kind)
    groups: dict[tuple[str, str, int], list[str]] = {}
    for tree in treebank.trees:
        for w in tree.words:
            if w.upos in kind:
                groups.setdefault(_class(w.upos, w.features, counts[w.form.lower()]), []).append(
                    w.form.lower()
                )
    for words, tree in zip(treebank.words, treebank.trees, strict=True):
        places = [i for i, w in enumerate(tree.words) if w.upos in kind and i > 0]
        if not places:
            continue
        at = draw.choice(places)
        old = tree.words[at]
        others = [
            f
            for f in groups[_class(old.upos, old.features, counts[old.form.lower()])]
            if f != old.form.lower()
        ]
        odd = draw.random() < 0.5 and bool(others)
        yield (_with_word(words, at, draw.choice(others)) if odd else words), "odd" if odd else "original"


def _class(upos: str, features: str, count: int) -> tuple[str, str, int]:
    return upos, features, count.bit_length()


def _with_word(words: Words, at: int, form: str) -> Words:
    forms = (*words.forms[:at], form, *words.forms[at + 1 :])
    return Words(forms, words.space_after, words.document, words.name)


def _coordination_inversion(treebank: Treebank, draw: random.Random) -> Iterator[Labelled]:
    """Sentences with two coordinated phrases; in half of them the two have changed places."""
    for words, tree in zip(treebank.words, treebank.trees, strict=True):
        found = _conjuncts(tree)
        if found is None:
            continue
        (a, b), (c, d) = found
        swap = draw.random() < 0.5
        if swap:
            order = [*range(a), *range(c, d), *range(b, c), *range(a, b), *range(d, len(words.forms))]
            words = Words(tuple(words.forms[i] for i in order), None, words.document, words.name)
        else:
            words = Words(words.forms, None, words.document, words.name)
        yield words, "inverted" if swap else "original"


def _conjuncts(tree: ConlluSentence) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """The first coordination: its first conjunct up to the conjunction, and the second after it."""
    for w, word in enumerate(tree.words):
        if word.relation != "conj" or word.head is None:
            continue
        second, whole = subtree(tree, w), subtree(tree, word.head)
        joint = next((i for i, x in enumerate(tree.words) if x.head == w and x.relation == "cc"), None)
        if second is None or whole is None or joint is None or joint != second[0] or second[1] - joint < 2:
            continue
        if whole[0] < joint:
            return (whole[0], joint), (joint + 1, second[1])
    return None


def _root(tree: ConlluSentence) -> int:
    return next((w for w, word in enumerate(tree.words) if word.head is None), 0)


def _task(name: str, about: str, label: Callable[[Treebank, random.Random], Iterator[Labelled]]) -> ProbeTask:
    def build(treebank: Treebank, seed: int) -> ProbeData:
        found = list(label(treebank, random.Random(seed)))
        words = tuple(w for w, _ in found)
        items = [
            ProbeItem((Place(n, 0, len(w.forms)),), value, " ".join(w.forms).lower())
            for n, (w, value) in enumerate(found)
        ]
        return probe_data(name, Unit.SENTENCE, words, items, (treebank.name, treebank.source), about)

    return register(ProbeTask(name, Unit.SENTENCE, about, build=build))


SENTENCE_TASKS = (
    _task("length", "how many words the sentence has, in eight bins", _length),
    _task("word_content", "which one of fifty content words the sentence holds", _word_content),
    _task("top_constituents", "the sequence of the root's dependents", _top_constituents),
    _task("bigram_shift", "whether two neighbouring words were swapped", _bigram_shift),
    _task("sentence_tense", "the tense of the main verb", _tense),
    _task("subject_number", "the number of the main verb's subject", _number_of(_SUBJECTS)),
    _task("object_number", "the number of the main verb's object", _number_of(("obj",))),
    _task("odd_man_out", "whether a noun or verb was replaced by another", _odd_man_out),
    _task(
        "coordination_inversion", "whether two coordinated phrases changed places", _coordination_inversion
    ),
)
