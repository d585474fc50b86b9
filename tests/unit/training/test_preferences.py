"""Training on preferences: losses against a computation by hand, going on after a stop, and what is refused."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

pytest.importorskip("trl", reason="pip install trl")

import workbench
from tests.model_folders import save_encoder, save_llama
from tests.unit.training.preference_jobs import FIRST, pair_table, prepared
from tests.unit.training.test_resuming import Killed, killed_at, same_weights
from workbench.errors import ConfigError
from workbench.training.preferences import AlignMethod, AlignSettings
from workbench.training.preferences.libraries import silent
from workbench.training.preferences.settings import LOSSES

ROWS = 6


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("preferences")
    save_llama(folder / "model")
    pair_table(folder)
    return folder


def move(model: Any, distance: float) -> None:
    """Change every weight a little."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(distance * torch.randn_like(parameter))


def log_probs(model: Any, pairs: list[dict[str, Any]], reply: str) -> torch.Tensor:
    """Of each reply by itself, token by token, in float64 from the model's logits."""
    sums = []
    for pair in pairs:
        ids = torch.tensor([pair["prompt_ids"] + pair[reply]])
        logits = model(input_ids=ids).logits[0].double()
        table = logits - logits.exp().sum(-1, keepdim=True).log()
        start = len(pair["prompt_ids"])
        sums.append(sum(table[i - 1, ids[0, i]] for i in range(start, ids.shape[1])))
    return torch.stack(sums)


def by_hand(loss: str, chosen: torch.Tensor, rejected: torch.Tensor, pairs: list[dict[str, Any]]) -> float:
    """The mean loss of log-ratios to the reference, written out from the papers, with β = 0.3."""
    beta, total = 0.3, 0.0
    for a, b, pair in zip(chosen.tolist(), rejected.tolist(), pairs, strict=True):
        margin = beta * (a - b)
        if loss == "sigmoid":  # Rafailov et al. 2023, equation 7
            total += math.log1p(math.exp(-margin))
        elif loss == "hinge":
            total += max(0.0, 1 - margin)
        elif loss == "ipo":  # Azar et al. 2023, equation 17, by the mean over tokens
            gap = a / len(pair["chosen_ids"]) - b / len(pair["rejected_ids"])
            total += (gap - 1 / (2 * beta)) ** 2
        elif loss == "robust":  # Chowdhury et al. 2024, equation 9, with a tenth of the labels wrong
            wrong = 0.1
            clean, flipped = math.log1p(math.exp(-margin)), math.log1p(math.exp(margin))
            total += ((1 - wrong) * clean - wrong * flipped) / (1 - 2 * wrong)
    return total / len(pairs)


@pytest.mark.parametrize(
    ("loss", "more"),
    [("sigmoid", {}), ("ipo", {}), ("hinge", {}), ("robust", {"label_smoothing": 0.1})],
)
def test_dpo_losses_are_those_of_the_papers(
    loss: str, more: dict[str, Any], place: Path, tmp_path: Path
) -> None:
    with silent():
        made, _ = prepared(
            place / "model", place / "pairs.jsonl", tmp_path, method="dpo", loss=loss, beta=0.3, **more
        )
    trainer, model = made.trainer, made.trainer.model.eval()
    move(model, 0.1)  # a policy that is no longer the reference
    pairs = [trainer.train_dataset[i] for i in range(ROWS)]
    with torch.no_grad():
        ratios = [
            log_probs(model, pairs, f"{name}_ids") - torch.tensor([p[f"ref_{name}_logps"] for p in pairs])
            for name in ("chosen", "rejected")
        ]
        found = trainer.compute_loss(model, trainer.data_collator(pairs))
    assert float(found) == pytest.approx(by_hand(loss, *ratios, pairs), abs=1e-6)
    assert max(abs(ratios[0])) > 0.01


@pytest.mark.parametrize(
    ("method", "loss"), [("dpo", name) for name in LOSSES[AlignMethod.DPO]] + [("kto", "apo_zero_unpaired")]
)
def test_every_loss_prefers_what_was_chosen(method: str, loss: str, place: Path, tmp_path: Path) -> None:
    """One step down the gradient from the reference makes the chosen replies likelier, beside the rejected ones."""
    smoothing = {"label_smoothing": 0.1} if loss in ("robust", "exo_pair") else {}
    with silent():
        made, _ = prepared(
            place / "model", place / "pairs.jsonl", tmp_path, method=method, loss=loss, **smoothing
        )
    trainer, model = made.trainer, made.trainer.model
    before = made.measure(model).metrics["margin"].value
    rows = [trainer.train_dataset[i] for i in range(len(trainer.train_dataset))]
    trainer.compute_loss(model, trainer.data_collator(rows)).backward()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.sub_(1e-3 * parameter.grad / parameter.grad.norm().clamp(min=1e-12))
    assert before == pytest.approx(0.0, abs=1e-5)
    assert made.measure(model).metrics["margin"].value > 1e-5


def test_kto_is_that_of_the_paper(place: Path, tmp_path: Path) -> None:
    """Ethayarajh et al. 2024, equations 7 and 8: β = 0.3, desirable replies weighing 1.2, the others 0.7."""
    options = {"beta": 0.3, "desirable_weight": 1.2, "undesirable_weight": 0.7, "batch_size": ROWS}
    with silent():
        made, _ = prepared(place / "model", place / "pairs.jsonl", tmp_path, method="kto", **options)
    trainer, model = made.trainer, made.trainer.model.eval()
    move(model, 0.1)
    rows = [trainer.train_dataset[i] for i in range(ROWS)]
    with torch.no_grad():
        own = log_probs(model, rows, "completion_ids") - torch.tensor([r["ref_logps"] for r in rows])
        other = log_probs(model, rows, "KL_completion_ids") - torch.tensor([r["ref_KL_logps"] for r in rows])
        found = trainer.compute_loss(model, trainer.data_collator(rows))
    point = max(0.0, float(other.mean()))  # z₀
    total = 0.0
    for ratio, row in zip(own.tolist(), rows, strict=True):
        weight, sign = (1.2, 1) if row["label"] else (0.7, -1)
        total += weight * (1 - 1 / (1 + math.exp(-sign * 0.3 * (ratio - point))))
    assert float(found) == pytest.approx(total / ROWS, abs=1e-6)
    assert {row["label"] for row in rows} == {True, False}
    assert [r["KL_completion_ids"] for r in rows] == [
        rows[(i - 1) % ROWS]["completion_ids"] for i in range(ROWS)
    ]


@pytest.mark.parametrize("save", [save_llama, save_encoder])
def test_the_loss_of_reward_models_is_bradley_terry(save: Any, place: Path, tmp_path: Path) -> None:
    """Ouyang et al. 2022, equation 1, with a margin of 0.5 and a tenth of the squared sum of the rewards."""
    source = save(tmp_path / "base")
    with silent():
        made, subject = prepared(
            source, place / "pairs.jsonl", tmp_path, method="reward", margin=0.5, centring=0.1
        )
    trainer, model = made.trainer, made.trainer.model.eval()
    move(model, 0.1)
    rows = [trainer.train_dataset[i] for i in range(ROWS)]
    total = 0.0
    for row in rows:
        with torch.no_grad():
            a, b = (
                float(model(input_ids=torch.tensor([row[side]["input_ids"]])).logits)
                for side in ("chosen", "rejected")
            )
        total += math.log1p(math.exp(-(a - b - 0.5))) + 0.1 * (a + b) ** 2
    with torch.no_grad():
        found = trainer.compute_loss(model, trainer.data_collator(rows))
    assert float(found) == pytest.approx(total / ROWS, abs=1e-6)
    assert subject.fresh


def test_the_reference_is_the_model_before_training(place: Path, tmp_path: Path) -> None:
    with silent():
        made, _ = prepared(place / "model", place / "pairs.jsonl", tmp_path, method="dpo")
    before = workbench.load(str(place / "model")).model
    pairs = [made.trainer.train_dataset[i] for i in range(ROWS)]
    with torch.no_grad():
        own = log_probs(before, pairs, "chosen_ids").tolist()
    assert [p["ref_chosen_logps"] for p in pairs] == pytest.approx(own, abs=1e-5)


def align(place: Path, out: Path, **options: Any) -> Any:
    return workbench.align(
        str(place / "model"), place / "pairs.jsonl", out, device="cpu", **{**FIRST, **options}
    )


@pytest.mark.parametrize(
    "more", [{}, {"lora": True, "save_every": 2}, {"method": "kto"}, {"method": "reward", "lora": True}]
)
def test_training_goes_on_to_the_same_weights(
    more: dict[str, Any], place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from workbench.training.preferences._trainer import AlignTrainer

    whole = align(place, tmp_path / "whole", epochs=3, **more)
    with monkeypatch.context() as patched:
        killed_at(patched, AlignTrainer, 8)
        with pytest.raises(Killed):
            align(place, tmp_path / "stopped", epochs=3, **more)
    going_on = align(place, tmp_path / "stopped", epochs=3, resume=True, **more)
    assert same_weights(tmp_path / "whole", tmp_path / "stopped")
    assert going_on.results == whole.results
    assert whole.results["pairs"]["margin"].value > 0


def test_a_very_large_beta_leaves_the_policy_as_it_was(place: Path, tmp_path: Path) -> None:
    """IPO asks for log-ratios of 1 / (2 β), so with β → ∞ for none."""
    run = align(place, tmp_path / "out", loss="ipo", beta=1e6, epochs=2, lr=1e-4)
    before, after = (
        load_file(folder / "model.safetensors") for folder in (place / "model", tmp_path / "out")
    )
    far = align(place, tmp_path / "far", loss="ipo", beta=0.1, epochs=2, lr=1e-4)
    moved = load_file(tmp_path / "far" / "model.safetensors")

    def distance(weights: dict[str, torch.Tensor]) -> float:
        return sum(float((weights[n] - before[n]).norm() ** 2) for n in before) ** 0.5

    assert run.complete
    assert far.complete
    assert distance(after) < distance(moved)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "nll"}, "method dpo has no loss 'nll'; allowed: sigmoid"),
        ({"beta": 0.0}, "beta is 0"),
        ({"label_smoothing": 0.1}, "label_smoothing goes with"),
        ({"loss": "exo_pair"}, "needs --label-smoothing"),
        ({"margin": 1.0}, "of reward models"),
        ({"method": "ppo"}, "unknown method 'ppo'"),
        ({"steps": 0}, "steps is 0"),
        ({"warmup": 1.0}, "warmup is 1.0"),
    ],
)
def test_recipes_that_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        AlignSettings(**options)
