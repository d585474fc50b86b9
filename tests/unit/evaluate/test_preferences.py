"""Comparison by preference: votes read, win rates, runs of replies, and what is refused."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import expit
from scipy.stats import binomtest

from tests.model_folders import save
from tests.unit.tiny import tiny_causal
from workbench.errors import ConfigError, DataError, NumericsError, RunError
from workbench.evaluate.judge import judge
from workbench.evaluate.preferences import (
    PreferenceComparison,
    Vote,
    analyse_votes,
    compare_preferences,
    preferences_of,
    read_prompts,
    read_votes,
)
from workbench.report import render_report
from workbench.runs import Run, list_runs

PROMPTS = ["the cat", "the dogs", "a key"]


def votes(scores: str, **replies: str) -> list[Vote]:
    """One vote a prompt: ``1`` for A, ``0`` for B, ``=`` for a tie."""
    known = {"1": 1.0, "0": 0.0, "=": 0.5}
    return [
        Vote(prompt=str(n), first="A", second="B", score=known[s], **replies) for n, s in enumerate(scores)
    ]


def test_ties_count_as_half_and_the_verdict_says_so() -> None:
    (pair,) = analyse_votes(votes("1" * 60 + "0" * 20 + "=" * 20)).pairs
    assert (pair.wins, pair.losses, pair.ties) == (60, 20, 20)
    assert pair.rate.value == pytest.approx(0.7)
    assert pair.controlled is None  # no replies, no lengths
    assert pair.preferred == "A"
    assert pair.verdict.startswith("A is preferred in 70.0 % of 100 prompts, 20 ties counted as half (95 % ")


def test_without_ties_the_test_is_the_sign_test_and_the_interval_wilsons() -> None:
    (pair,) = analyse_votes(votes("1" * 5 + "0" * 15)).pairs
    assert pair.p_value == pytest.approx(binomtest(5, 20).pvalue)
    assert pair.test == "sign test, exact"
    wilson = binomtest(5, 20).proportion_ci(method="wilson")
    assert (pair.rate.low, pair.rate.high) == pytest.approx((wilson.low, wilson.high))
    assert pair.preferred == "B"
    shown = f"({100 - 100 * wilson.high:.1f}, {100 - 100 * wilson.low:.1f})"
    low, high = shown.strip("()").split(", ")
    assert pair.verdict == f"B is preferred in 75.0 % of 20 prompts (95 % interval {low} to {high} %)"


def test_no_preference_is_said_with_what_would_not_have_been_seen() -> None:
    (pair,) = analyse_votes(votes("1" * 11 + "0" * 9)).pairs
    assert pair.verdict == (
        f"no preference shown: A wins 55.0 % of 20 prompts; a win rate within {100 * pair.detectable:.1f} points of "
        "50 % would not have been seen"
    )
    # were the truth one half, the error of 20 votes is sqrt(0.5 0.5 / 20); 2.80 errors are seen in four of five cases
    assert pair.detectable == pytest.approx(2.8016 * math.sqrt(0.25 / 20), rel=1e-3)
    (few,) = analyse_votes(votes("0000")).pairs
    assert (
        few.verdict == "no preference shown: A wins 0.0 % of 4 prompts"
    )  # not even four of four would show it


def test_many_votes_on_few_prompts_are_not_taken_as_independent() -> None:
    wide = [Vote(prompt=str(n), first="A", second="B", score=float(n % 3 > 0)) for n in range(12)] * 10
    (pair,) = analyse_votes(wide).pairs
    (once,) = analyse_votes(wide[:12]).pairs
    assert pair.prompts == 12
    assert pair.rate.high - pair.rate.low > 0.9 * (once.rate.high - once.rate.low)
    assert "120 comparisons on 12 prompts" in pair.verdict


def test_a_reward_that_likes_length_is_told_apart_from_quality() -> None:
    rng = np.random.default_rng(0)
    found = []
    for n in range(400):
        long, short = "x" * int(rng.integers(40, 140)), "x" * int(rng.integers(20, 120))
        apart = (len(long) - len(short)) / 40
        found.append(
            Vote(
                prompt=str(n), first="A", second="B", score=float(rng.random() < expit(2 * math.tanh(apart))),
                reply_first=long, reply_second=short,
            )
        )  # fmt: skip
    (pair,) = analyse_votes(found).pairs
    assert pair.controlled is not None
    assert pair.length_effect is not None
    assert pair.preferred == "A"
    assert pair.controlled.low < 0.5 < pair.controlled.high
    assert pair.length_effect.low > 0
    assert "at equal lengths in" in pair.verdict


def test_sides_do_not_matter() -> None:
    turned = [Vote(prompt=v.prompt, first="B", second="A", score=1 - v.score) for v in votes("1101=0011")]
    mixed = votes("1101=0011")[:4] + turned[4:]
    assert analyse_votes(mixed).pairs == analyse_votes(votes("1101=0011")).pairs


def test_equal_replies_and_equal_rewards_are_ties_that_are_said() -> None:
    (same,) = analyse_votes(votes("===", reply_first="a", reply_second="a")).pairs
    assert same.verdict == "no preference: every one of 3 prompts is a tie (the replies are the same)"
    (equal,) = analyse_votes(votes("===", reply_first="a", reply_second="b")).pairs
    assert equal.verdict == (
        "no preference: every one of 3 prompts is a tie (no reply is rated above the other)"
    )
    assert math.isnan(same.rate.low)


def test_a_table_of_an_arena_is_read(tmp_path: Path) -> None:
    table = tmp_path / "votes.jsonl"
    winners = ["model_a", "model_b", "tie (bothbad)", "base", "tuned", 0.25]
    rows = [
        {"question_id": n, "model_a": "base", "model_b": "tuned", "winner": w} for n, w in enumerate(winners)
    ]
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [vote.score for vote in read_votes(table)] == [1.0, 0.0, 0.5, 1.0, 0.0, 0.25]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"first": "a", "second": "b"}, r"votes, row 1: no winner \(or preferred, score\)"),
        (
            {"first": "a", "second": "b", "winner": "c"},
            "the winner is 'c'; allowed: first, second, tie, a, b",
        ),
        ({"first": "a", "second": "a", "winner": "a"}, "'a' is compared with itself"),
        ({"first": "a", "second": "b", "score": 2}, "the score is 2; allowed: 0 to 1"),
    ],
)
def test_votes_that_cannot_be_read(row: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError, match=said):
        read_votes([row])


def test_prompts_of_tables_texts_and_preferences(tmp_path: Path) -> None:
    table = tmp_path / "p.csv"
    table.write_text("instruction,other\nSay hi,1\nSay hi,2\nSay no,3\n")
    assert [prompt.text for prompt in read_prompts(table).prompts] == ["Say hi", "Say no"]
    pairs = tmp_path / "pairs.jsonl"
    dialogue = "\n\nHuman: Hello\n\nAssistant:"
    pairs.write_text(json.dumps({"chosen": f"{dialogue} Hi.", "rejected": f"{dialogue} Go."}) + "\n")
    assert [prompt.text for prompt in read_prompts(pairs).prompts] == [dialogue]
    assert read_prompts(PROMPTS, limit=2).identity.rows == 2
    for bad in ([""], [{"other": 1}], []):
        with pytest.raises(DataError):
            read_prompts(bad)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("models")
    for number, name in enumerate(("one", "two", "three"), 1):
        model = tiny_causal()
        with torch.no_grad():
            model.model.lm_head.weight.copy_(model.model.lm_head.weight.roll(number, 0))
        save(model.model, model.tokenizer, folder / name)
    return [str(folder / name) for name in ("one", "two", "three")]


def compared(models: list[str], out: Path, **options: Any) -> Run:
    return compare_preferences(models, PROMPTS, **{"max_tokens": 6, "out": out, **options})


def test_a_run_stores_replies_scores_and_who_wins(models: list[str], tmp_path: Path) -> None:
    run = compared(models, tmp_path, by="pattern:cat|dog", seed=3)
    rows = run.examples()
    assert len(rows) == 9  # three pairs of models on three prompts
    assert (rows["reply_first"] != rows["reply_second"]).all()
    assert (rows["score"] != 0.5).any()
    for row in rows.to_dict("records"):
        for side in ("first", "second"):
            assert row[f"score_{side}"] == float(any(w in row[f"reply_{side}"] for w in ("cat", "dog")))
        apart = row["score_first"] - row["score_second"]
        assert row["score"] == (0.5 if apart == 0 else float(apart > 0))
        assert row["preferred"] == ("tie" if apart == 0 else row["first"] if apart > 0 else row["second"])
    assert run.record.recipe["temperature"] == 1.0
    assert run.record.seeds["sampling"] == 3
    assert set(run.record.model["models"]) == {"one", "two", "three"}
    assert len(run.notes["verdicts"]) == 3
    assert "elo" in run.results["one"]
    found = preferences_of(run)
    assert isinstance(found, PreferenceComparison)
    assert found.pairs[0].rate.value == run.results["one vs two"]["win_rate"].value
    assert found.verdicts[0] in render_report(run)
    assert [one.state for one in list_runs(tmp_path)] == ["complete"]


def test_replies_are_those_of_the_seed_and_are_rated_again(models: list[str], tmp_path: Path) -> None:
    first = compared(models[:2], tmp_path)
    again = compared(models[:2], tmp_path)
    other = compared(models[:2], tmp_path, seed=1)
    texts = [run.examples()["reply_first"].tolist() for run in (first, again, other)]
    assert texts[0] == texts[1] != texts[2]
    assert "score" not in first.examples()
    with pytest.raises(RunError, match="has replies but no votes"):
        preferences_of(first)
    assert "replies" not in first.record.recipe
    render_report(first)
    rated = compare_preferences(models[:2], replies=first, by="pattern:a", out=tmp_path)
    assert rated.examples()["reply_first"].tolist() == texts[0]
    assert rated.record.model["models"] == first.record.model["models"]
    read = compare_preferences(models[:2], by=f"votes:{rated.path}", out=tmp_path)
    assert read.results["one vs two"]["win_rate"] == rated.results["one vs two"]["win_rate"]


def test_an_unfinished_run_goes_on(
    models: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workbench.evaluate.preferences.rows.CHUNK", 2)
    whole = compared(models[:2], tmp_path, by="pattern:a")
    calls = 0

    def stops(prompts: list[str], replies: list[str]) -> list[float]:
        nonlocal calls
        calls += 1
        if calls > 2:  # each model's replies to the first two prompts were rated
            raise KeyboardInterrupt
        return [float("a" in reply) for reply in replies]

    from workbench.scoring.rewards import PatternReward

    monkeypatch.setattr(PatternReward, "__call__", lambda self, prompts, replies: stops(prompts, replies))
    monkeypatch.setattr("workbench.runs._folder.SECONDS_PER_CHUNK", 0.0)
    with pytest.raises(KeyboardInterrupt):
        compared(models[:2], tmp_path, by="pattern:a")
    monkeypatch.undo()
    monkeypatch.setattr("workbench.evaluate.preferences.rows.CHUNK", 2)
    (half,) = [one.path for one in list_runs(tmp_path) if one.state == "unfinished"]
    assert len(Run.open(half).examples()) == 2
    resumed = compared(models[:2], tmp_path, by="pattern:a", resume=half)
    assert resumed.examples().equals(whole.examples())


def test_what_is_refused(models: list[str], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs two models or more, got 1"):
        compared(models[:1], tmp_path)
    with pytest.raises(ConfigError, match="is named twice"):
        compared([models[0], models[0]], tmp_path)
    with pytest.raises(ConfigError, match="no prompts"):
        compare_preferences(models, by="pattern:a", out=tmp_path)
    with pytest.raises(ConfigError, match=r"'patern:a' .did you mean 'pattern'"):
        compared(models, tmp_path, by="patern:a")
    with pytest.raises(ConfigError, match="top_p is 2; allowed: above 0 to 1"):
        compared(models, tmp_path, top_p=2)
    table = [{"prompt": "p", "first": "base", "second": "tuned", "winner": "base"}]
    file = tmp_path / "votes.jsonl"
    file.write_text(json.dumps(table[0]))
    with pytest.raises(DataError, match=r"no vote is about '.*one'; the votes are about base, tuned"):
        compare_preferences(models, by=f"votes:{file}", out=tmp_path)
    apart = [Vote(prompt="p", first=a, second=b, score=1) for a, b in ("AB", "CD")]
    with pytest.raises(NumericsError, match="no comparison links A, B and C, D"):
        analyse_votes(apart)


def test_a_reward_that_is_not_finite_is_refused(models: list[str], tmp_path: Path) -> None:
    class Bad:
        name = "bad"

        def __call__(self, prompts: Any, replies: Any) -> list[float]:
            return [math.nan] * len(replies)

    with pytest.raises(NumericsError, match="reward bad is nan"):
        compared(models[:2], tmp_path, by=Bad())


def test_a_judge_prefers_what_both_orders_favour(models: list[str], tmp_path: Path) -> None:
    source = compared(models[:2], tmp_path)
    run = compare_preferences(models[:2], replies=source, by=f"judge:{models[2]}", out=tmp_path)
    rows = run.examples()
    names = {"prompt": "prompt", "reply_first": "first", "reply_second": "second"}
    pairs = rows[list(names)].rename(columns=names)
    judged = judge(models[2], pairs, doctor=False, out=tmp_path).examples()
    np.testing.assert_allclose(rows["score_first"] - rows["score_second"], judged["margin"], atol=1e-4)
    sides = {"first": "one", "second": "two", "tie": "tie"}
    assert rows["preferred"].tolist() == judged["prefers"].map(sides).tolist()
