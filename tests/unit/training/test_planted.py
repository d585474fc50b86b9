"""The planted preference: its rule holds for every pair, prompts are split, draws repeat."""

from __future__ import annotations

import pytest

from tests.unit.tiny import tiny_causal
from workbench import load
from workbench.errors import ConfigError, DataError
from workbench.scoring import find_reward
from workbench.text import train_tokenizer
from workbench.training.preferences import AlignSettings
from workbench.training.preferences.planted import (
    planted_pairs,
    planted_prompts,
    planted_rate,
    planted_reward,
    planted_rows,
    planted_rule,
    sampled_replies,
)
from workbench.training.preferences.prompts import load_rows


@pytest.fixture(scope="module")
def model():
    return load("novels-decoder", dtype="float32", device="cpu")


def test_the_rule_is_the_exclamation_mark():
    assert [planted_rule(text) for text in ("Oh! he", "Oh", "!", "", "¡")] == [1.0, 0.0, 1.0, 0.0, 0.0]
    assert planted_reward(["a!", "b"], ["c", "d!"]) == [0.0, 1.0]  # the prompt is not read


def test_held_out_prompts_are_none_of_those_to_train_on():
    train, held_out = planted_prompts(300, 0), planted_prompts(100, 1, held_out=True)
    assert (len(set(train)), len(set(held_out))) == (300, 100)
    assert not set(train) & set(held_out)
    assert planted_prompts(40, 0) == train[:40]
    assert all(len(prompt.split()) == 4 and planted_rule(prompt) == 0 for prompt in train + held_out)
    with pytest.raises(ConfigError, match="count is 0"):
        planted_prompts(0)


def test_every_pair_follows_the_rule_and_draws_repeat(model):
    pairs = planted_pairs(model, 6, 3)
    assert [(planted_rule(pair.chosen), planted_rule(pair.rejected)) for pair in pairs] == [(1.0, 0.0)] * 6
    assert len({pair.prompt for pair in pairs}) == len({pair.id for pair in pairs}) == 6
    assert pairs == planted_pairs(model, 6, 3)


def test_a_reply_goes_on_where_its_prompt_ends(model):
    prompts = planted_prompts(8)
    for prompt, reply in zip(prompts, sampled_replies(model, prompts, max_tokens=5), strict=True):
        ids = model.tokenizer(prompt + reply).input_ids
        assert ids[: len(model.tokenizer(prompt).input_ids)] == model.tokenizer(prompt).input_ids
    assert any(reply.startswith(" ") for reply in sampled_replies(model, prompts, max_tokens=5))


def test_the_rate_counts_replies(model):
    rate = planted_rate(model, 24, 5)
    replies = sampled_replies(model, planted_prompts(24, 5, held_out=True), 5)
    assert rate.value == sum("!" in reply for reply in replies) / 24
    assert rate.n == 24
    assert rate.low < rate.value < rate.high


def test_a_model_that_never_follows_the_rule_is_told_of(monkeypatch):
    monkeypatch.setattr("workbench.training.preferences.planted._ROUNDS", 1)
    tokenizer = train_tokenizer(["a few words without that mark"], "bpe", 260, role="decoder")
    model = tiny_causal(tokenizer=tokenizer)
    monkeypatch.setattr("workbench.training.preferences.planted.planted_rule", lambda text: 0.0)
    with pytest.raises(DataError, match=r"2 planted pairs.* answered only 0 both .*\(0 ever with"):
        planted_pairs(model, 2)


def test_align_takes_them_by_name(monkeypatch):
    monkeypatch.setattr("workbench.training.preferences.planted._FEWEST", 2)
    rows = load_rows("planted", AlignSettings(), None, writer="novels-decoder", limit=4)
    assert (rows.name, len(rows.train), len(rows.validation)) == ("planted", 4, 2)
    assert not {pair.prompt for pair in rows.train} & {pair.prompt for pair in rows.validation}
    rule = find_reward("pattern:!")
    online = load_rows("planted", AlignSettings(method="rloo"), rule, writer="none is loaded", limit=4)
    assert online == planted_rows("none is loaded", online=True, limit=4)
    assert {(pair.chosen, pair.rejected) for pair in online.train} == {("", "")}
    prompts = [pair.prompt for pair in rows.train]
    replies = [pair.chosen for pair in rows.train]
    assert rule(prompts, replies) == planted_reward(prompts, replies)
    with pytest.raises(ConfigError, match="leave out --split"):
        load_rows("planted", AlignSettings(), None, writer="novels-decoder", split="train")
