"""Shared prefixes: the engine itself, one sequence at a time, is the reference."""

from __future__ import annotations

import pytest
import torch
from transformers import BloomConfig, BloomForCausalLM

from tests.unit.tiny import WORDS, loaded, tiny_causal, tiny_gpt2, word_tokenizer
from workbench.models import Kind
from workbench.scoring import Engine, PrefixGroup, Request
from workbench.scoring._requests import Sequence
from workbench.scoring.prefix_tree import PrefixTree, build_trees, support_of

GROUPS = [
    ("the keys to the cabinet are on the table", "the keys to the cabinet is on the table"),
    ("the cat sat", "the cats sat on the mat and the dogs ran"),
    ("a cat", "dogs ran to the mat"),
    ("the cat sat on the mat", "the cat sat on"),
    ("the cat sat", "the cat ran", "the cat sat on the mat", "a cat"),
]


def groups(engine: Engine) -> list[PrefixGroup]:
    return [PrefixGroup(tuple(engine.encode([Request("", text) for text in group]))) for group in GROUPS]


@pytest.mark.parametrize("make", [tiny_causal, tiny_gpt2])
@pytest.mark.parametrize("policy", ["bos", "unscored"])
@pytest.mark.parametrize("budget", [1, 30, 1000])
def test_a_group_scores_as_its_members_do_alone(make, policy, budget):
    engine = Engine(make(), policy, budget)
    assert support_of(engine.model).trees
    for group, got in zip(groups(engine), engine.score_groups(groups(engine)), strict=True):
        for alone, score in zip(engine.score_sequences(list(group.members)), got, strict=True):
            assert score.token_log_probabilities == pytest.approx(alone.token_log_probabilities, abs=1e-5)
            assert (score.token_ids, score.greedy_ids, score.ranks) == (
                alone.token_ids,
                alone.greedy_ids,
                alone.ranks,
            )


def test_what_is_read_is_the_shared_part_once_and_each_branch():
    group = PrefixGroup((Sequence((1, 2, 3, 4, 5), 1), Sequence((1, 2, 3, 9, 5, 6), 1)))
    # shared 1 2 3; branches read 4 and 9 5; the last ids are only predicted
    assert (group.shared, group.length) == (3, 6)
    inside = PrefixGroup((Sequence((1, 2, 3), 1), Sequence((1, 2, 3, 4), 1)))
    assert (inside.shared, inside.length) == (2, 3)


def test_groups_that_begin_alike_share_a_tree():
    one = PrefixGroup((Sequence((1, 2, 3, 4), 1), Sequence((1, 2, 5, 4), 1)))
    two = PrefixGroup((Sequence((1, 2, 6, 4), 1), Sequence((1, 7, 5, 4), 1)))
    (tree,) = build_trees([two, one])
    nodes, paths = tree.nodes()
    assert tree == PrefixTree((one, two), 7)
    # read are 1 2 3, 1 2 5, 1 2 6 and 1 7 5: seven nodes, of which 1 and 2 are shared
    assert nodes.ids == [1, 2, 3, 5, 6, 7, 5]
    assert nodes.depths == [0, 1, 2, 2, 2, 1, 2]
    assert paths == [[[0, 1, 2], [0, 1, 3]], [[0, 1, 4], [0, 5, 6]]]
    assert nodes.visible(8)[6].tolist() == [True, False, False, False, False, True, True, False]


def test_a_small_group_fills_the_room_that_an_earlier_tree_has():
    def group(first: int, length: int) -> PrefixGroup:
        return PrefixGroup((Sequence((first, *range(100, 99 + length), 1), 1),))

    found = build_trees([group(1, 40), group(2, 40), group(3, 20)])
    assert sorted(tree.length for tree in found) == [40, 60]


def test_a_model_that_cannot_read_trees_reads_one_by_one():
    torch.manual_seed(0)
    config = BloomConfig(
        vocab_size=4 + len(WORDS), hidden_size=32, n_layer=2, n_head=4, initializer_range=0.3
    )
    engine = Engine(loaded(BloomForCausalLM(config), Kind.CAUSAL, word_tokenizer()), "bos")
    assert not support_of(engine.model).trees  # its distance biases come from the place in the row
    group = groups(engine)[1]
    got = engine.score_groups([group])[0]
    alone = engine.score_sequences(list(group.members))
    assert [s.log_probability for s in got] == pytest.approx([s.log_probability for s in alone], abs=1e-5)
