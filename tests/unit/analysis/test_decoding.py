"""Contrastive search beside its definition, the best of several samples by a reward, and how much a text repeats."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import workbench
from tests.helpers import run_command
from tests.model_folders import save_bart, save_llama
from tests.unit.tiny import tiny_causal, tiny_gpt2
from workbench.analysis import contrastive
from workbench.analysis.contrastive import contrastive_ids
from workbench.analysis.decoding import Decoding, Strategy, best_of_kl
from workbench.analysis.diversity import distinct
from workbench.analysis.generation import generate_all, texts_frame
from workbench.errors import ConfigError, WorkbenchWarning
from workbench.figures.text import generation_view
from workbench.models import LoadedModel, load
from workbench.scoring import PythonReward

TEXT = "the cats sat"


def models() -> dict[str, LoadedModel]:
    return {"Llama": tiny_causal(), "GPT-2": tiny_gpt2(), "built-in": load("novels-decoder", dtype="float32")}


def naive(model: LoadedModel, begun: list[int], count: int, penalty: float, candidates: int) -> list[int]:
    """Equation 5 of Su et al. 2022, one candidate and one pair of states at a time, without a cache."""
    ids, end = list(begun), model.tokenizer.eos_token_id
    while len(ids) < len(begun) + count and ids[-1] != end:
        with torch.no_grad():
            probabilities = model.model(torch.tensor([ids])).logits[0, -1].double().softmax(-1)
        best: tuple[float, int] | None = None
        for token in probabilities.argsort(descending=True)[:candidates].tolist():
            with torch.no_grad():
                states = model.model(torch.tensor([[*ids, token]]), output_hidden_states=True).hidden_states[
                    -1
                ][0]
            new = states[-1].numpy().astype(float)
            cosines = [
                float(new @ old / (np.linalg.norm(new) * np.linalg.norm(old)))
                for old in states[:-1].numpy().astype(float)
            ]
            score = (1 - penalty) * float(probabilities[token]) - penalty * max(cosines)
            if best is None or score > best[0]:
                best = (score, token)
        assert best is not None
        ids.append(best[1])
    return ids[len(begun) :]


@pytest.mark.parametrize("name", ["Llama", "GPT-2", "built-in"])
@pytest.mark.parametrize("cached", [True, False])
def test_contrastive_search_is_its_definition(
    name: str, cached: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = models()[name]
    monkeypatch.setattr(contrastive, "cache_works", lambda _: cached)
    begun = list(model.tokenizer(TEXT).input_ids)
    greedy = naive(model, begun, 10, 0.0, 4)
    for penalty in (0.3, 0.8):
        expected = naive(model, begun, 10, penalty, 4)
        assert contrastive_ids(model, begun, 10, penalty=penalty, candidates=4) == expected
    assert expected != greedy  # the penalty decides something


def test_without_a_penalty_it_would_be_greedy_and_with_all_of_it_unlike() -> None:
    model = tiny_causal()
    begun = list(model.tokenizer(TEXT).input_ids)
    greedy = generate_all(model, TEXT, 8)[0]
    assert contrastive_ids(model, begun, 8, penalty=0.0, candidates=4) == [s.token_id for s in greedy.steps]
    (found,) = generate_all(model, TEXT, 8, decoding=Decoding(penalty=0.6, top_k=3))
    assert max(step.rank for step in found.steps) <= 3
    assert found.log_probability <= greedy.log_probability


def test_contrastive_search_of_an_encoder_decoder_is_refused(tmp_path: Path) -> None:
    bart = load(str(save_bart(tmp_path / "bart")), dtype="float32")
    with pytest.raises(ConfigError, match="contrastive search goes with decoders"):
        generate_all(bart, "the cat", 4, decoding=Decoding(penalty=0.6))


def test_the_best_of_several_samples_are_those_samples_in_another_order(tmp_path: Path) -> None:
    model = load("novels-decoder", dtype="float32")
    drawn = generate_all(model, "She was", 8, decoding=Decoding(samples=8, seed=3))
    best = generate_all(model, "She was", 8, decoding=Decoding(best_of=8, seed=3), reward=Letters())
    assert sorted(one.tokens for one in drawn) == sorted(one.tokens for one in best)
    rewards = [one.reward for one in best]
    assert rewards == sorted(rewards, reverse=True)
    for one in best:
        assert one.reward == float(one.generated.count("e"))
    assert f"reward {best[0].reward:.4g}" in generation_view(best).html
    bart = load(str(save_bart(tmp_path / "bart")), dtype="float32")
    last_first = PythonReward(lambda _, replies: range(len(replies)), "place")
    drawn = generate_all(bart, "the cat", 4, decoding=Decoding(samples=3))
    best = generate_all(bart, "the cat", 4, decoding=Decoding(best_of=3), reward=last_first)
    assert [(one.reward, one.tokens) for one in best] == [(n, drawn[n].tokens) for n in (2, 1, 0)]


class Letters:
    """How many e's a reply has; prompt and reply must read on."""

    name = "letters"

    def __call__(self, prompts: Any, replies: Any) -> list[float]:
        for prompt, reply in zip(prompts, replies, strict=True):
            if prompt == "She was":  # tokens that begin a word say so
                assert not reply[:1].isalnum()
        return [float(reply.count("e")) for reply in replies]


def test_the_bound_of_best_of_n_is_one_and_is_reached_by_distributions_without_ties() -> None:
    """KL of the best of n from what is drawn, computed exactly for outcomes in the order of their reward."""
    for outcomes, slack in ((3, None), (20_000, 1e-3)):
        below = np.arange(outcomes + 1) / outcomes
        for n in (2, 4, 16):
            best = np.diff(below**n)
            exact = float(np.sum(best * np.log(best * outcomes, where=best > 0, out=np.zeros_like(best))))
            assert exact <= best_of_kl(n) + 1e-12
            if slack is not None:
                assert exact == pytest.approx(best_of_kl(n), abs=slack)
    assert best_of_kl(1) == 0


def test_repetition_by_hand() -> None:
    assert distinct("ababab", 1) == pytest.approx(2 / 6)
    assert distinct("ababab", 2) == pytest.approx(2 / 5)
    assert math.isnan(distinct(["a"], 2))
    (found,) = generate_all(tiny_causal(), TEXT, 9)
    ids = [step.token_id for step in found.steps]
    assert found.distinct(1) == len(set(ids)) / len(ids)
    runs = [tuple(ids[i : i + 4]) for i in range(len(ids) - 3)]
    assert found.repetition == pytest.approx(1 - len(set(runs)) / len(runs))
    frame = texts_frame([found])
    assert "reward" not in frame
    assert frame["mean_log_probability"][0] == pytest.approx(found.log_probability / len(ids))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"best_of": 1}, "best_of is 1; allowed: 0, or 2 or more"),
        ({"penalty": 1.5}, "penalty is 1.5; allowed: from 0 to 1"),
        ({"penalty": 0.5, "beams": 3}, "beams 3 and penalty 0.5 are different strategies"),
        ({"penalty": 0.5, "temperature": 0.7}, "temperature and top_p are of sampling"),
        ({"penalty": 0.5, "top_k": 1}, "contrastive search chooses among 2 or more"),
        ({"best_of": 4, "samples": 4}, "samples 4 and best_of 4 are different"),
        ({"beams": 2.5}, "beams is 2.5; allowed: a whole number"),
    ],
)
def test_strategies_that_do_not_go_together(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Decoding(**options)


def test_each_setting_names_its_strategy() -> None:
    given: list[dict[str, Any]] = [{}, {"beams": 2}, {"samples": 1}, {"penalty": 0.6}, {"best_of": 2}]
    assert [Decoding(**one).strategy for one in given] == list(Strategy)
    with pytest.raises(ConfigError, match="best_of and a reward go together"):
        generate_all(tiny_causal(), TEXT, 2, decoding=Decoding(best_of=2))
    with pytest.raises(ConfigError, match="best_of and a reward go together"):
        generate_all(tiny_causal(), TEXT, 2, reward="pattern:a")


def test_the_verb_shows_every_candidate_and_the_bound(tmp_path: Path) -> None:
    folder = str(save_llama(tmp_path / "llama"))
    asked = [folder, TEXT, "--max-tokens", "6"]
    done = run_command("generate", *asked, "--best-of", "4", "--reward", "pattern:a")
    status, out = done.returncode, done.stdout
    assert status == 0
    assert out.count("reward ") == 4
    assert f"{best_of_kl(4):.3f} nats (KL)" in out
    assert "Stiennon et al. 2020; Beirami et al. 2024" in out
    done = run_command("generate", *asked, "--best-of", "4", "--reward", "pattern:a", "--json")
    status, out = done.returncode, done.stdout
    found = json.loads(out)
    assert found["strategy"] == "best of n"
    assert found["reward"] == "pattern:a"
    assert [one["reward"] for one in found["texts"]] == [
        float("a" in one["generated"]) for one in found["texts"]
    ]
    done = run_command("generate", *asked, "--contrastive", "0.6", "--top-k", "5")
    status, out = done.returncode, done.stdout
    assert status == 0
    assert "contrastive search: 1 text" in out
    for options, message in (
        (["--best-of", "4"], "--best-of chooses by a reward"),
        (["--reward", "pattern:a"], "--reward is of --best-of"),
        (["--best-of", "4", "--reward", "patern:a"], "unknown reward 'patern:a'"),
        (["--contrastive", "0.6", "--samples", "2"], "samples 2 and penalty 0.6 are different strategies"),
    ):
        done = run_command("generate", *asked, *options)
        status, said = done.returncode, done.stderr
        assert status == 2
        assert message in said


def test_equal_rewards_are_said() -> None:
    model = workbench.load("novels-decoder")
    with pytest.warns(WorkbenchWarning, match="is 0 for all 3 replies"):
        generate_all(model, "She was", 3, decoding=Decoding(best_of=3), reward="pattern:§")
