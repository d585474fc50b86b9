"""RLOO and GRPO: losses by hand, KL by the engine of scores, a planted reward, going on after a stop, bad input."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("trl", reason="pip install trl")

import workbench
from tests.model_folders import save, save_bert, save_llama
from tests.unit.tiny import WORDS, tiny_gpt2, word_tokenizer
from tests.unit.training.test_resuming import Killed, killed_at, same_weights
from workbench.errors import ConfigError, DataError, ModelError, NumericsError, WorkbenchWarning
from workbench.models import wrap
from workbench.runs import RunRecord
from workbench.runs.trackers import LiveReport
from workbench.scoring import PythonReward
from workbench.training.preferences import AlignSettings, online_results
from workbench.training.preferences.aligning import preparer_of, subject_of
from workbench.training.preferences.frontier import Frontier
from workbench.training.preferences.job import AlignJob
from workbench.training.preferences.libraries import silent
from workbench.training.preferences.prompts import load_prompts
from workbench.training.preferences.sampling import measured_kl, sample_replies
from workbench.training.progress import read_log

FIRST: dict[str, Any] = {
    "precision": "float32",
    "batch_size": 16,
    "generations": 4,
    "max_new_tokens": 8,
    "lr": 0.01,
    "beta": 0.02,
    "steps": 3,
    "device": "cpu",
}
CATS = PythonReward(lambda prompts, replies: [r.split().count("cat") / 8 for r in replies], "python:cats")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("online")
    save_llama(folder / "model")
    learned_positions = tiny_gpt2()
    save(learned_positions.model, learned_positions.tokenizer, folder / "gpt2")
    save_bert(folder / "bert")
    (folder / "short.jsonl").write_text('{"prompt": "the cat"}\n')
    prompts = (" ".join(WORDS[(i * 7 + k) % len(WORDS)] for k in range(2 + i % 3)) for i in range(30))
    (folder / "prompts.jsonl").write_text("".join(json.dumps({"prompt": p}) + "\n" for p in prompts))
    return folder


@pytest.fixture(autouse=True)
def fewer_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the end of a run 64 replies are drawn instead of 256."""
    monkeypatch.setattr(online_results, "_REPLIES", 64)


def align(place: Path, out: Path, model: str = "model", **options: Any) -> Any:
    given = {"reward": CATS, **FIRST, **options}
    return workbench.align(str(place / model), given.pop("data", place / "prompts.jsonl"), out, **given)


def trainer_of(place: Path, out: Path, model: str = "model", rows: int = 16, **options: Any) -> Any:
    """A trainer that has not begun."""
    settings = AlignSettings(**{k: v for k, v in {**FIRST, **options}.items() if k != "device"})
    report = LiveReport((), RunRecord.new("align", recipe={}, model={}, data={}, seeds={}), out)
    data = load_prompts(place / "prompts.jsonl", CATS)
    job = AlignJob(
        str(place / model), data, settings, 0, out, torch.device("cpu"), False, report, reward=CATS
    )
    torch.manual_seed(0)
    with silent():
        return preparer_of(settings.method)(job, subject_of(job, rows)).trainer


def prepared(place: Path, out: Path, model: str = "model", **options: Any) -> Any:
    """A trainer whose policy is no longer the reference, and a batch of its replies."""
    trainer = trainer_of(place, out, model, **options)
    with silent():
        shaken(trainer.model, 0.05)
        trainer.model.train()
        trainer.current_gradient_accumulation_steps = 1
        prompts = [row for row in list(trainer.train_dataset)[:4] for _ in range(4)]
        return trainer, trainer._generate_and_score_completions(prompts)


def shaken(model: Any, size: float) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(size * torch.randn_like(parameter))


def log_probs(model: Any, batch: dict[str, Any]) -> list[torch.Tensor]:
    """Of each reply's tokens, row by row without padding, in float64 from the model's logits."""
    found = []
    for row in range(len(batch["prompt_ids"])):
        prompt, reply = (
            batch[f"{part}_ids"][row][batch[f"{part}_mask"][row].bool()] for part in ("prompt", "completion")
        )
        ids = torch.cat([prompt, reply])
        with torch.no_grad():
            table = model(input_ids=ids[None]).logits[0].double().log_softmax(-1)
        found.append(torch.stack([table[i - 1, ids[i]] for i in range(len(prompt), len(ids))]))
    return found


def rewards_of(trainer: Any, batch: dict[str, Any]) -> list[float]:
    texts = trainer.processing_class.batch_decode(batch["completion_ids"], skip_special_tokens=True)
    return CATS([""] * len(texts), texts)


def clipped(ratio: float, advantage: float, clip: float = 0.2) -> float:
    """What PPO's clipped objective makes of one ratio (Schulman et al. 2017, equation 7)."""
    return min(ratio * advantage, min(max(ratio, 1 - clip), 1 + clip) * advantage)


def test_the_loss_of_rloo_is_that_of_the_paper(place: Path, tmp_path: Path) -> None:
    """Reward less β KL of the reply, less the mean of the three others; the ratio of whole replies is clipped."""
    trainer, batch = prepared(place, tmp_path, method="rloo", beta=0.3)
    old, reference = log_probs(trainer.model, batch), log_probs(trainer.ref_model, batch)
    shaken(trainer.model, 0.02)
    new, total, ratios = log_probs(trainer.model, batch), 0.0, []
    scores = [
        r - 0.3 * float((a - b).sum())
        for r, a, b in zip(rewards_of(trainer, batch), old, reference, strict=True)
    ]
    for n, score in enumerate(scores):
        others = [scores[i] for i in range(n - n % 4, n - n % 4 + 4) if i != n]
        ratios.append(math.exp(float((new[n] - old[n]).sum())))
        total -= clipped(ratios[-1], score - sum(others) / 3)
    with torch.no_grad():
        found = float(trainer._compute_loss(trainer.model, batch))
    assert found == pytest.approx(total / 16, abs=1e-5)
    assert max(abs(math.log(ratio)) for ratio in ratios) > 0.2  # so that clipping was at work


def test_the_loss_of_grpo_is_that_of_the_paper(place: Path, tmp_path: Path) -> None:
    """Shao et al. 2024, equation 3: advantages in units of their spread, k3 in each token's loss, mean by reply."""
    trainer, batch = prepared(place, tmp_path, method="grpo", beta=0.3)
    reference, own = log_probs(trainer.ref_model, batch), log_probs(trainer.model, batch)
    rewards, total = rewards_of(trainer, batch), 0.0
    for n, (mine, theirs) in enumerate(zip(own, reference, strict=True)):
        group = rewards[n - n % 4 : n - n % 4 + 4]
        advantage = (rewards[n] - np.mean(group)) / (np.std(group, ddof=1) + 1e-4)
        # while the policy is the one that wrote the replies, every ratio is 1
        k3 = (theirs - mine).exp() - (theirs - mine) - 1
        total -= float((advantage - 0.3 * k3).mean())
    with torch.no_grad():
        found = float(trainer._compute_loss(trainer.model, batch))
    assert found == pytest.approx(total / 16, abs=1e-5)


@pytest.mark.parametrize(("method", "model"), [("rloo", "model"), ("grpo", "gpt2"), ("rloo", "gpt2")])
@pytest.mark.parametrize("beta", [0.0, 0.1])
def test_the_logged_kl_is_that_of_the_engine_on_the_same_replies(
    method: str, model: str, beta: float, place: Path, tmp_path: Path
) -> None:
    trainer, batch = prepared(place, tmp_path, model, method=method, beta=beta)
    with torch.no_grad():
        trainer._compute_loss(trainer.model, batch)
    logged = trainer._metrics["train"]
    rows: dict[str, list[list[int]]] = {}
    for part in ("prompt", "completion"):
        pairs = zip(batch[f"{part}_ids"], batch[f"{part}_mask"], strict=True)
        rows[part] = [ids[mask.bool()].tolist() for ids, mask in pairs]
    assert len({len(ids) for ids in rows["prompt"]}) > 1  # so that padding was at work
    models = [wrap(one, trainer.processing_class) for one in (trainer.model, trainer.ref_model)]
    kl = measured_kl(*models, rows["prompt"], rows["completion"])
    assert logged["own/k1"] == pytest.approx([np.mean(kl["k1"])], rel=1e-4)
    assert logged["own/k3"] == pytest.approx([np.mean(kl["k3"])], rel=1e-4)
    assert np.mean(kl["k3"]) > 0.1


@pytest.mark.parametrize("method", ["rloo", "grpo"])
def test_a_planted_reward_rises_and_is_logged_with_its_price(
    method: str, place: Path, tmp_path: Path
) -> None:
    run = align(place, tmp_path / "out", method=method, steps=14, gold_reward="pattern:mat")
    found, log = run.results["prompts"], read_log(tmp_path / "out" / "log.jsonl")
    assert found["reward_gain"].low > 0.03
    assert found["kl"].value > 0.5
    assert {"reward", "gold_reward", "kl", "kl_k3", "length", "entropy", "clipped", "unfinished"} <= set(
        log[0]
    )
    assert log[0]["kl"] == log[0]["kl_k3"] == 0  # the policy still is its reference
    # TRL's own column is a mean over tokens: k1 of RLOO, k3 of GRPO
    for row in log:
        ours = row["kl" if method == "rloo" else "kl_k3"]
        assert row["kl_of_tokens"] * row["length"] == pytest.approx(ours, rel=1e-3, abs=1e-5)
    table = Frontier(tuple(run.notes["frontier"])).to_frame()
    assert table["step"].iloc[-1] == 14
    assert table["gold_reward"].mean() == pytest.approx(np.mean([row["gold_reward"] for row in log]))
    assert "gold reward" in (run.path / "figures" / "frontier.html").read_text()
    rows = run.examples()
    assert rows["reward_of_reply"].mean() == pytest.approx(found["reward"].value)
    assert rows["kl"].mean() == pytest.approx(found["kl"].value)


def test_with_a_very_large_beta_no_reward_is_gained(place: Path, tmp_path: Path) -> None:
    """Some KL is left: Adam's steps are as large for noise as for a reward."""
    held, free = (
        align(place, tmp_path / str(beta), method="rloo", beta=beta, steps=16, lr=5e-3).results["prompts"]
        for beta in (1e3, 0.0)
    )
    assert abs(held["reward_gain"].value) < 0.02
    assert free["reward_gain"].low > 0.1
    assert held["kl"].value < free["kl"].value / 3


@pytest.mark.parametrize(
    ("method", "more"), [("rloo", {"save_every": 2}), ("grpo", {"lora": True, "save_every": 2})]
)
def test_training_goes_on_to_the_same_weights(
    method: str, more: dict[str, Any], place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from workbench.training.preferences.online import OnlineTrainer

    whole = align(place, tmp_path / "whole", method=method, steps=4, **more)
    with monkeypatch.context() as patched:
        killed_at(patched, OnlineTrainer, 4)
        with pytest.raises(Killed):
            align(place, tmp_path / "stopped", method=method, steps=4, **more)
    going_on = align(place, tmp_path / "stopped", method=method, steps=4, resume=True, **more)
    assert same_weights(tmp_path / "whole", tmp_path / "stopped")
    assert going_on.results == whole.results
    assert going_on.notes["frontier"] == whole.notes["frontier"]


@pytest.mark.parametrize("method", ["rloo", "grpo"])
def test_a_step_is_the_same_however_its_replies_are_divided(method: str, place: Path, tmp_path: Path) -> None:
    weights = []
    for rows in (16, 4):
        trainer = trainer_of(place, tmp_path / str(rows), rows=rows, method=method, lr=1e-3, warmup=0.0)
        with silent():
            trainer.train()
        weights.append([p.detach().clone() for p in trainer.model.parameters()])
    before = [p.detach() for p in workbench.load(str(place / "model")).model.parameters()]
    moved = max(float((a - b).abs().max()) for a, b in zip(weights[0], before, strict=True))
    apart = max(float((a - b).abs().max()) for a, b in zip(*weights, strict=True))
    assert apart < 0.05 * moved


def test_replies_that_are_learned_from_twice_are_clipped(place: Path, tmp_path: Path) -> None:
    align(place, tmp_path / "out", method="rloo", iterations=2, steps=6, clip=0.05)
    log = read_log(tmp_path / "out" / "log.jsonl")
    assert [("kl" in row) for row in log] == [True, False] * 3  # only of the policy that wrote the replies
    assert all(row["clipped"] == 0 for row in log[::2])
    assert any(row["clipped"] > 0 for row in log[1::2])


def test_with_adapters_the_model_without_them_is_the_reference(place: Path, tmp_path: Path) -> None:
    off, named = (
        align(place, tmp_path / name, method="rloo", lora=True, lr=0.05, reference=reference)
        for name, reference in (("off", None), ("named", str(place / "model")))
    )
    logs = [read_log(run.path / "log.jsonl") for run in (off, named)]
    assert [row["kl"] for row in logs[0]] == pytest.approx([row["kl"] for row in logs[1]], abs=1e-4)
    assert logs[0][-1]["kl"] != 0
    assert off.results["prompts"]["kl"].value == pytest.approx(named.results["prompts"]["kl"].value, abs=1e-3)


def test_sampled_replies_follow_the_models_distribution(place: Path) -> None:
    """Of 2,000 first tokens after one prompt, each token's share is that of its probability, by a chi-squared test."""
    from scipy.stats import chisquare

    model = workbench.load(str(place / "model"))
    prompt = model.tokenizer("the cat").input_ids
    drawn = [ids[0] for ids in sample_replies(model, [prompt] * 2000, 1, seed=3)]
    with torch.no_grad():
        share = model.model(torch.tensor([prompt])).logits[0, -1].double().softmax(-1).numpy()
    common = share * 2000 >= 5
    seen = np.bincount(drawn, minlength=len(share))
    observed = [*seen[common], seen[~common].sum()]
    expected = np.array([*share[common], share[~common].sum()]) * 2000
    assert chisquare(observed, expected).pvalue > 1e-3
    assert drawn == [ids[0] for ids in sample_replies(model, [prompt] * 2000, 1, seed=3)]


def test_a_suites_reward_brings_its_prompts(place: Path, tmp_path: Path) -> None:
    from challenge_sets.rewards import suite_reward

    cases = "".join(
        f'  - {{name: t{n}, capability: Nouns, kind: MFT, template: "the {word}", label: "is"}}\n'
        for n, word in enumerate(("keys", "cat", "table", "cats", "dogs", "mat", "key", "cabinet"))
    )
    (tmp_path / "nouns.yaml").write_text(
        'suite: nouns\nlabels: {"is": [], "are": []}\n'
        'prompt: {text: "{0}", answers: {"is": " is", "are": " are"}}\ntests:\n' + cases
    )
    reward = suite_reward(str(tmp_path / "nouns.yaml"))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*nothing can be learned", category=WorkbenchWarning)
        run = align(place, tmp_path / "out", data=None, method="rloo", reward=reward, steps=2)
    assert set(run.examples()["prompt"]) <= set(reward.prompts)
    assert run.record.recipe["reward"] == f"suite:{tmp_path / 'nouns.yaml'}"


def bad(value: float) -> PythonReward:
    return PythonReward(lambda prompts, replies: [value] * len(replies), "python:bad")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"reward": None}, ConfigError, "method rloo needs --reward: model:NAME"),
        ({"reward": bad(math.nan)}, NumericsError, "reward python:bad is nan for the reply"),
        ({"data": None}, ConfigError, "reward python:cats brings no prompts; name a table"),
        ({"method": "dpo"}, ConfigError, "method dpo learns from pairs and takes no --reward"),
        ({"generations": 1}, ConfigError, "generations is 1; allowed: 2 or more"),
        ({"generations": 3}, ConfigError, "batch_size is 16 replies; allowed: a multiple of generations, 3"),
        ({"temperature": 0.0}, ConfigError, "temperature is 0"),
        ({"max_new_tokens": 64}, ConfigError, "no prompt would fit; lower --max-new-tokens"),
        ({"max_new_tokens": 61}, DataError, r"have more than the 3 tokens that 61 new ones leave"),
        ({"batch_size": 160}, DataError, "27 prompts to train on, but a step takes 40"),
        ({"model": "bert"}, ModelError, "method rloo trains models that go on with a text"),
        (
            {"loss": "ppo", "method": "grpo"},
            ConfigError,
            "method grpo has no loss 'ppo'; allowed: grpo, dapo",
        ),
    ],
)
def test_what_is_refused(
    options: dict[str, Any], error: type[Exception], message: str, place: Path, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        align(place, tmp_path / "out", **{"method": "rloo", **options})
    assert not (tmp_path / "out").exists()


def test_a_model_without_an_end_token_and_a_reference_of_another_tokenizer(
    place: Path, tmp_path: Path
) -> None:
    model = workbench.load(str(place / "model"))
    endless = word_tokenizer(eos_token=None)
    save(model.model, endless, tmp_path / "endless")
    with pytest.raises(ModelError, match="has no end token, so no reply could end"):
        align(tmp_path, tmp_path / "out", "endless", data=place / "prompts.jsonl", method="rloo")
    other = word_tokenizer()
    other.add_tokens(["novel"])
    model.model.resize_token_embeddings(len(other))
    save(model.model, other, tmp_path / "other")
    with pytest.raises(ModelError, match="has another tokenizer"):
        align(place, tmp_path / "out", method="grpo", reference=str(tmp_path / "other"))


@pytest.mark.parametrize(
    ("reward", "message"),
    [
        (bad(1.0), "is 1 for all 16 replies of a batch"),
        (
            PythonReward(lambda p, r: [1e6 * len(x) for x in r], "python:grown"),
            "reached .*; beyond|reward_clip",
        ),
    ],
)
def test_what_is_said_of_a_reward(
    reward: Callable[..., Any], message: str, place: Path, tmp_path: Path
) -> None:
    with pytest.warns(WorkbenchWarning, match=message):
        align(place, tmp_path / "out", method="rloo", steps=1, reward=reward)


def test_prompts_that_are_too_long_are_shortened_or_left_out(place: Path, tmp_path: Path) -> None:
    given = {"method": "rloo", "steps": 1, "length": 11, "validation": place / "short.jsonl"}
    for way, note in (("cut", "prompts_cut"), ("drop", "prompts_dropped")):
        # 2, 3 or 4 tokens each, of which 3 fit
        assert align(place, tmp_path / way, long_prompts=way, **given).notes[note] == 10
