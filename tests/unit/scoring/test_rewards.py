"""Rewards of replies: values by hand, one line for what is no reward, and the checks that training relies on."""

from __future__ import annotations

import math
import tomllib
import warnings
from importlib.metadata import EntryPoint

import pytest
import torch
from transformers import LlamaConfig, LlamaForSequenceClassification

from challenge_sets.rewards import suite_reward
from probes.rewards import probe_reward
from tests.helpers import REPOSITORY
from tests.unit.tiny import loaded, tiny_causal, word_tokenizer
from workbench.errors import ConfigError, ModelError, NumericsError, RunError, TaskError, WorkbenchWarning
from workbench.models import Kind
from workbench.scoring import (
    CheckedReward,
    ModelReward,
    PatternReward,
    PythonReward,
    Reward,
    find_reward,
    rewards,
)

PROMPTS = ["the cat ", "the keys to the cabinet "]
REPLIES = ["sat on the mat .", "are on the table ."]


def head(labels: int, positions: int = 64, **config):
    tokenizer = word_tokenizer()
    torch.manual_seed(1)
    names = {i: f"label{i}" for i in range(labels)}
    small = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=positions,
        initializer_range=0.4,
        pad_token_id=0,
        id2label=names,
        label2id={name: i for i, name in names.items()},
        **config,
    )
    return loaded(LlamaForSequenceClassification(small), Kind.CLASSIFIER, tokenizer)


def logits_of(model, text: str) -> torch.Tensor:
    ids = model.tokenizer(text, return_tensors="pt").input_ids
    with torch.no_grad():
        return model.model(ids).logits[0]


def test_a_reward_models_number_is_that_of_the_whole_dialogue():
    model = head(1)
    expected = [float(logits_of(model, p + r)[0]) for p, r in zip(PROMPTS, REPLIES, strict=True)]
    assert ModelReward(model)(PROMPTS, REPLIES) == pytest.approx(expected, abs=1e-5)
    alone = [float(logits_of(model, r)[0]) for r in REPLIES]
    assert ModelReward(model, reply_only=True)(PROMPTS, REPLIES) == pytest.approx(alone, abs=1e-5)


def test_a_classifiers_reward_is_the_log_odds_of_the_label():
    model = head(3)
    for label in range(3):
        found = ModelReward(model, f"label{label}")(PROMPTS, REPLIES)
        for value, prompt, reply in zip(found, PROMPTS, REPLIES, strict=True):
            probability = float(logits_of(model, prompt + reply).double().softmax(0)[label])
            assert value == pytest.approx(math.log(probability / (1 - probability)), abs=1e-5)


def test_with_labels_that_may_hold_at_once_it_is_the_labels_own():
    model = head(2, problem_type="multi_label_classification")
    expected = [float(logits_of(model, p + r)[1]) for p, r in zip(PROMPTS, REPLIES, strict=True)]
    assert ModelReward(model, "label1")(PROMPTS, REPLIES) == pytest.approx(expected, abs=1e-5)


def test_a_text_longer_than_the_model_keeps_its_reply():
    model = head(1, positions=8)
    short = float(logits_of(model, "cat cat cat sat on the mat .")[0])
    assert ModelReward(model)(["the dogs ran . cat cat cat "], ["sat on the mat ."]) == pytest.approx([short])


def test_which_models_and_labels_are_refused():
    with pytest.raises(ModelError, match="head for sequence classification; tiny is a LlamaForCausalLM"):
        ModelReward(tiny_causal())
    with pytest.raises(TaskError, match=r"say which label is rewarded.*label0, label1"):
        ModelReward(head(2))
    with pytest.raises(TaskError, match="no label 'labl1'; did you mean 'label1'"):
        ModelReward(head(2), "labl1")
    with pytest.raises(TaskError, match="gives one number and has no labels"):
        ModelReward(head(1), "label0")


def test_patterns():
    assert PatternReward(r"\bon\b")(PROMPTS, ["sat on it", "only"]) == [1.0, 0.0]
    assert find_reward("pattern:(?i)SAT")(PROMPTS, REPLIES) == [1.0, 0.0]
    with pytest.raises(ConfigError, match=r"'\(' is no regular expression"):
        PatternReward("(")


def test_functions_by_name_and_as_such(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_reward.py").write_text(
        "def longer(prompts, replies):\n    return map(len, replies)\nten = 10\n"
    )
    assert find_reward("python:own_reward:longer")(PROMPTS, ["ab", "abc"]) == [2.0, 3.0]
    assert PythonReward(lambda prompts, replies: [len(p) for p in prompts])(["a", "bc"], REPLIES) == [
        1.0,
        2.0,
    ]
    with pytest.raises(ModelError, match="no 'longr'; did you mean 'longer'"):
        find_reward("python:own_reward:longr")
    with pytest.raises(ModelError, match="is a int; a reward is a function"):
        find_reward("python:own_reward:ten")
    with pytest.raises(ModelError, match="no name of a function; write module:function"):
        find_reward("python:own_reward")


def test_a_function_that_fails_or_returns_no_numbers():
    with pytest.raises(ModelError, match=r"raised ZeroDivisionError.*\(given 2 replies\)"):
        PythonReward(lambda p, r: [1 / 0])(PROMPTS, REPLIES)
    with pytest.raises(ModelError, match="returned None; it must return one number for each reply"):
        PythonReward(lambda p, r: None)(PROMPTS, REPLIES)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_refused_with_its_reply(bad):
    reward = CheckedReward(PythonReward(lambda p, r: [0.5, bad], "python:mine"))
    with pytest.raises(NumericsError, match=r"reward python:mine is .* for the reply 'are on the table \.'"):
        reward(PROMPTS, REPLIES)


def test_one_number_for_each_reply():
    with pytest.raises(ModelError, match="returned 1 number for 2 replies"):
        CheckedReward(PythonReward(lambda p, r: [1.0]))(PROMPTS, REPLIES)


def test_a_constant_reward_is_said_once():
    reward = CheckedReward(PatternReward("nowhere"))
    with pytest.warns(WorkbenchWarning, match="is 0 for all 2 replies of a batch"):
        reward(PROMPTS, REPLIES)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert reward(PROMPTS, REPLIES) == [0.0, 0.0]


def test_a_large_reward_is_said_or_clipped():
    grown = PythonReward(lambda p, r: [1.0, -1e6])
    with pytest.warns(WorkbenchWarning, match="reached -1e\\+06.*reward_clip"):
        assert CheckedReward(grown)(PROMPTS, REPLIES) == [1.0, -1e6]
    assert CheckedReward(grown, clip=5.0)(PROMPTS, REPLIES) == [1.0, -5.0]
    with pytest.raises(ConfigError, match="reward_clip 0"):
        CheckedReward(grown, clip=0)


def test_unknown_kinds():
    with pytest.raises(
        ConfigError, match=r"unknown reward 'modle:x' \(did you mean 'model'\?\); allowed: .*pattern:…"
    ):
        find_reward("modle:x")
    for spec in ("please", "pattern:", ""):
        with pytest.raises(ConfigError, match="allowed: "):
            find_reward(spec)
    assert {"model", "pattern", "python"} <= set(rewards.reward_kinds())
    own = PatternReward("x")
    assert find_reward(own) is own
    assert isinstance(own, Reward)


SUITE = """
suite: colours
labels: {"yes": [], "no": []}
prompt: {text: "Is {0} blue?", answers: {"yes": " Yes", "no": " No"}}
tests:
  - {name: sky, capability: Vocabulary, kind: MFT, template: the sky, label: "yes"}
  - {name: grass, capability: Vocabulary, kind: MFT, template: grass, label: "no"}
  - {name: again, capability: Vocabulary, kind: MFT, template: grass, label: "yes"}
"""


def test_packages_add_kinds_of_reward(tmp_path, monkeypatch):
    (tmp_path / "colours.yaml").write_text(SUITE)
    stated = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["entry-points"]
    points = [EntryPoint(*item, "workbench.rewards") for item in stated["workbench.rewards"].items()]
    monkeypatch.setattr(rewards, "entry_points", lambda group: points)
    rewards._kinds.cache_clear()
    assert {"suite", "probe"} <= set(stated["workbench.rewards"])
    assert rewards.reward_kinds() == sorted(["model", "pattern", "python", *stated["workbench.rewards"]])
    assert all(callable(point.load()) for point in points)
    found = find_reward(f"suite:{tmp_path / 'colours.yaml'}")
    assert found.name == f"suite:{tmp_path / 'colours.yaml'}"
    rewards._kinds.cache_clear()


def test_a_suites_reward_is_the_share_of_expectations_met(tmp_path):
    file = tmp_path / "colours.yaml"
    file.write_text(SUITE)
    reward = suite_reward(str(file))
    assert reward.prompts == ("Is the sky blue?", "Is grass blue?")
    sky, grass = reward.prompts
    # grass has two expectations, of which any answer meets one
    assert reward([sky] * 4, [" Yes, it is", "no", " maybe", " YES"]) == [1.0, 0.0, 0.0, 1.0]
    assert reward([grass] * 3, [" Yes", " No", "?"]) == [0.5, 0.5, 0.0]
    with pytest.raises(TaskError, match="judges replies to its own 2 prompts only; 'Other' is none"):
        reward(["Other"], ["Yes"])


def test_a_suite_that_compares_predictions_judges_no_single_reply(tmp_path):
    file = tmp_path / "colours.yaml"
    file.write_text(
        SUITE.replace('prompt: {text: "Is {0} blue?", answers: {"yes": " Yes", "no": " No"}}', "")
    )
    with pytest.raises(TaskError, match="cannot judge a single reply: it needs a prompt"):
        suite_reward(str(file))


def test_what_is_no_run_of_a_probe(tmp_path):
    with pytest.raises(RunError, match="none"):
        probe_reward(str(tmp_path / "none"))
