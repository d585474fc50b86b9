"""Long prefixes read once: the engine itself, one sequence at a time, is the reference."""

from __future__ import annotations

import pytest
import torch
from transformers import BloomConfig, BloomForCausalLM

from tests.unit.tiny import WORDS, loaded, tiny_causal, tiny_gpt2, word_tokenizer
from workbench.models import Kind
from workbench.scoring import Engine, Request, prefix_tree
from workbench.scoring._requests import Sequence
from workbench.scoring.prefix_tree import plan_prefixes, support_of

SHOTS = "the cat sat on the mat . the dogs ran to the table . the keys are on the cabinet . "
REQUESTS = [
    *(
        Request(SHOTS + question, answer)
        for question in ("the cat is", "the dogs", "a key")
        for answer in (" on", " the mat .")
    ),
    Request("the cat", " sat"),
    Request("the cat", " ran to the table"),
    Request("", "dogs and cats"),
]


@pytest.fixture(autouse=True)
def _short_prefixes(monkeypatch):
    monkeypatch.setattr(prefix_tree, "_LONG", 8)
    monkeypatch.setattr(plan_prefixes, "__kwdefaults__", {"long": 8})


def test_plan_by_hand():
    shots = tuple(range(10, 20))
    sequences = [
        Sequence((*shots, 1, 2, 3), 12),
        Sequence((*shots, 1, 2, 4), 12),
        Sequence((5, 6), 1),
        Sequence((*shots, 7, 8), 11),
        Sequence((5, 9), 1),
        Sequence((6, 9), 1),
    ]
    plan = plan_prefixes(sequences)
    assert plan.alone == (5,)
    assert plan.groups == ((2, 4),)
    (long,) = plan.prefixes
    assert (long.ids, long.groups) == (shots, ((0, 1), (3,)))
    assert long.following((0, 1), sequences).members == (Sequence((1, 2, 3), 2), Sequence((1, 2, 4), 2))


def test_a_context_that_is_the_beginning_of_another_keeps_a_token_to_predict_from():
    shots = tuple(range(10, 20))
    plan = plan_prefixes([Sequence((*shots, 1), 10), Sequence((*shots, 2, 3), 11)])
    assert plan.prefixes[0].ids == shots[:-1]


@pytest.mark.parametrize("make", [tiny_causal, tiny_gpt2])
@pytest.mark.parametrize("budget", [1, 30, 1000])
def test_scores_are_those_of_sequences_alone(make, budget):
    engine = Engine(make(), "bos", budget)
    assert support_of(engine.model).cached
    sequences = engine.encode(REQUESTS)
    assert len(plan_prefixes(sequences).prefixes) == 1
    for alone, score in zip(engine.score_sequences(sequences), engine.score_shared(sequences), strict=True):
        assert score.token_log_probabilities == pytest.approx(alone.token_log_probabilities, abs=1e-5)
        assert (score.token_ids, score.ranks) == (alone.token_ids, alone.ranks)


def test_what_is_done_is_left_out_and_the_rest_keeps_its_bits():
    engine = Engine(tiny_causal(), "bos", 30)
    sequences = engine.encode(REQUESTS)
    whole = engine.score_shared(sequences)
    rest = {
        place: score for batch in engine.stream_shared(sequences, set(range(5))) for place, score in batch
    }
    assert set(range(5, len(REQUESTS))) <= set(rest)
    assert all(score == whole[place] for place, score in rest.items())


def test_a_model_that_cannot_read_trees_reads_one_by_one():
    torch.manual_seed(0)
    config = BloomConfig(vocab_size=4 + len(WORDS), hidden_size=32, n_layer=2, n_head=4)
    engine = Engine(loaded(BloomForCausalLM(config), Kind.CAUSAL, word_tokenizer()), "bos")
    assert not support_of(engine.model).cached
    sequences = engine.encode(REQUESTS)
    assert engine.score_shared(sequences) == engine.score_sequences(sequences)
