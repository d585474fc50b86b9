"""Dependency heads on attention and trees made by hand."""

from __future__ import annotations

import pytest
import torch

from tests.unit.trace import tiny
from workbench.analysis.dependency import (
    ParsedSentence,
    batch_of_trees,
    dependency_heads,
    head_hits,
    offset_hits,
)
from workbench.data.conllu import ConlluSentence, ConlluWord
from workbench.errors import DataError
from workbench.text import align_words


def tree(words, heads, relations):
    parsed = [
        ConlluWord(form, form, "X", "X", "_", head, relation, True)
        for form, head, relation in zip(words, heads, relations, strict=True)
    ]
    return ConlluSentence("", " ".join(words), tuple(parsed))


def sentence(words, heads, relations, tokenizer):
    return ParsedSentence.of(tree(words, heads, relations), align_words(words, tokenizer), subtypes=False)


def test_hits_in_both_directions():
    """Words 0, 1, 2 with heads 1, none, 1; tokens are [CLS], three words, [SEP].

    Word 0 attends most to [CLS], which does not count, then to word 1: a hit. Word 2 attends most to word 0:
    no hit. The other way, word 0 is attended to most by word 2: no hit; word 2 by word 1: a hit.
    """
    tokenizer = tiny.tokenizer(special=True)
    batch = batch_of_trees(
        [sentence(["the", "cat", "sat"], [1, None, 1], ["det", "root", "obj"], tokenizer)],
        ["det", "obj", "all"],
        torch.device("cpu"),
    )
    weights = torch.tensor(
        [
            [1.0, 0, 0, 0, 0],
            [0.6, 0.1, 0.2, 0.1, 0],
            [0.0, 0.1, 0.2, 0.6, 0.1],
            [0.1, 0.5, 0.2, 0.1, 0.1],
            [0, 0, 0, 0, 1.0],
        ]
    )[None, None]
    hits = head_hits(weights, batch)
    assert hits[0, 0, 0].tolist() == [1, 0, 0]
    assert hits[0, 0, 1].tolist() == [0, 0, 1]
    assert batch.counts.tolist() == [[1, 1, 2]]
    # One to the right for word 0, one to the left for word 2.
    assert offset_hits(batch, [-1, 1])[0].tolist() == [[0, 0, 1], [1, 0, 0]]


def test_a_causal_head_with_no_candidate_makes_no_guess():
    tokenizer = tiny.tokenizer(special=False)
    batch = batch_of_trees(
        [sentence(["the", "cat"], [None, 0], ["root", "obj"], tokenizer)], ["all"], torch.device("cpu")
    )
    hits = head_hits(torch.tensor([[[[1.0, 0.0], [0.7, 0.3]]]]), batch)
    assert hits[0, 0, 0].tolist() == [0, 1]  # word 0 sees only itself
    assert hits[0, 0, 1].tolist() == [0, 0]  # nothing attends to word 1 but itself


def test_the_previous_token_head_is_found_and_equals_its_baseline():
    """Every word's head is the word before it: head 0 of the model finds it always, and so does offset -1."""
    words = ["the", "cat", "sat", "on", "a", "mat"]
    trees = [tree(words[:n], [None, *range(n - 1)], ["root", *["obj"] * (n - 1)]) for n in (3, 4, 5, 6, 6, 5)]
    found = dependency_heads(tiny.pointing_bert(), trees, min_words=2)
    row = found.rows[0]
    assert (row.relation, row.layer, row.head, row.direction, row.offset) == (
        "obj",
        0,
        0,
        "dependent to head",
        -1,
    )
    assert (row.accuracy.value, row.baseline.value, row.difference.value) == (1.0, 1.0, 0.0)
    assert row.words == 3 + 5 + 4  # words with a head in sentences 1, 3 and 5
    assert str(row.difference) == "0.0000, interval undefined (the values have no spread)"
    assert found.selection.at(layer=0, head=0, direction="dependent to head", relation="obj") == 1.0
    assert list(found.to_frame()["relation"]) == ["obj", "all relations"]


def test_subtypes_and_minimum():
    trees = [tree(["the", "cat", "sat"], [1, 2, None], ["det", "nsubj:pass", "root"])] * 6
    together = dependency_heads(tiny.bert(), trees, min_words=3)
    apart = dependency_heads(tiny.bert(), trees, min_words=3, subtypes=True)
    assert [r.relation for r in together.rows] == ["det", "nsubj", "all relations"]
    assert [r.relation for r in apart.rows] == ["det", "nsubj:pass", "all relations"]
    assert [r.relation for r in dependency_heads(tiny.bert(), trees, min_words=4).rows] == ["all relations"]
    with pytest.raises(DataError, match="3 of 3 sentences can be used; at least 4"):
        dependency_heads(tiny.bert(), trees[:3])
