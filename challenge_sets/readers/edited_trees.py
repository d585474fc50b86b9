"""Treebanks with edits that move a phrase: where does an adposition's phrase attach? (Gardner et al. 2020, UD)"""

from __future__ import annotations

from pathlib import Path

from workbench.data.conllu import ConlluSentence, read_conllu
from workbench.data.tables import Row
from workbench.errors import DataError

__all__ = ["edited_trees"]


def edited_trees(originals: Path, edits: Path) -> tuple[list[tuple[str, Row]], int]:
    """The rows of a contrast set with a member a row, and how many sentences have no such pair.

    Sentences go together by ``sent_id`` (marks behind it aside), or else by their order. The adposition is the first
    that stands at one place in both trees and whose phrase attaches to a word of another kind; a member is the sentence
    with that word, its label the part of speech of the word that the phrase attaches to (the head of the adposition's
    head), in lower case. Sentences that cannot be read, or without such an adposition, are left out. Raises
    :class:`~workbench.errors.DataError` where none is left, and where sentences without ids cannot be counted because
    some cannot be read.
    """
    skipped: tuple[list[str], list[str]] = ([], [])
    read = [
        read_conllu(path, skipped=of_file) for path, of_file in zip((originals, edits), skipped, strict=True)
    ]
    before, after = (_by_id(trees, of_file) for trees, of_file in zip(read, skipped, strict=True))
    rows: list[tuple[str, Row]] = []
    for name, tree in before.items():
        moved = _moved(tree, after[name]) if name in after else None
        if moved is None:
            continue
        for path, one, mark in ((originals, tree, "yes"), (edits, after[name], "no")):
            label = _attached(one, moved)
            assert label is not None, "an adposition that moved is attached"
            word, head = one.words[moved].form, one.words[label].upos.lower()
            where = f"{path}, sentence {name}"
            rows.append(
                (where, {"group": name, "text": one.written, "pair": word, "label": head, "original": mark})
            )
    if not rows:
        raise DataError(
            f"{originals} and {edits} have no sentence with an adposition whose phrase attaches elsewhere in the edit"
        )
    count = max(len(trees) + len(of_file) for trees, of_file in zip(read, skipped, strict=True))
    return rows, count - len(rows) // 2


def _by_id(trees: list[ConlluSentence], skipped: list[str]) -> dict[str, ConlluSentence]:
    named = {tree.sent_id.rstrip("*'_ "): tree for tree in trees}
    if len(named) == len(trees):
        return named
    if skipped:
        raise DataError(
            f"{skipped[0]}; sentences without sent_id go together by their order: mend or remove it"
        )
    return {f"{n:05d}": tree for n, tree in enumerate(trees)}


def _moved(first: ConlluSentence, second: ConlluSentence) -> int | None:
    """The place of the first adposition that both have there, whose phrase attaches to a word of another kind."""
    for place, (one, other) in enumerate(zip(first.words, second.words, strict=False)):
        if one.upos == other.upos == "ADP" and one.form == other.form:
            kinds = [_kind(tree, _attached(tree, place)) for tree in (first, second)]
            if None not in kinds and kinds[0] != kinds[1]:
                return place
    return None


def _kind(tree: ConlluSentence, place: int | None) -> str | None:
    return None if place is None else tree.words[place].upos


def _attached(tree: ConlluSentence, place: int) -> int | None:
    """The head of a word's head."""
    head = tree.words[place].head
    return None if head is None else tree.words[head].head
