"""Held-out results of training on preferences, ensembles of reward models, and data that is refused or remarked on."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss

pytest.importorskip("trl", reason="pip install trl")

import workbench
from tests.helpers import run_command
from tests.model_folders import save_bart, save_encoder, save_llama
from tests.unit.tiny import WORDS, word_tokenizer
from tests.unit.training.preference_jobs import FIRST, pair_table
from workbench.data.preferences import read_preferences
from workbench.data.rows import Preference
from workbench.errors import ConfigError, DataError, ModelError
from workbench.evaluate.calibration import calibration
from workbench.scoring import find_reward
from workbench.statistics import wilson
from workbench.training.preferences import AlignMethod, AlignSettings
from workbench.training.preferences.encoding import Encoder
from workbench.training.preferences.ensemble import ensemble_reward
from workbench.training.preferences.pairs import load_pairs
from workbench.training.preferences.results import measured_pairs, pair_metrics


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    save_llama(folder / "model")
    pair_table(folder)
    return folder


def align(place: Path, out: Path, **options: Any) -> Any:
    data = options.pop("data", place / "pairs.jsonl")
    model = options.pop("model", str(place / "model"))
    return workbench.align(model, data, out, device="cpu", **{**FIRST, "seeds": (0,), **options})


def test_metrics_of_margins_are_those_of_scikit_learn() -> None:
    margins = np.array([2.0, -1.0, 0.5, 0.0, 3.0])
    found = pair_metrics(margins, list("abcde"))
    chance = 1 / (1 + np.exp(-margins))
    assert found["accuracy"] == wilson(3, 5)
    assert found["log_loss"].value == pytest.approx(log_loss([1] * 5, chance, labels=[0, 1]))
    assert found["brier"].value == pytest.approx(np.mean(2 * (1 - chance) ** 2))
    assert found["margin"].value == pytest.approx(margins.mean())
    assert pair_metrics(margins, list("aabbc"))["accuracy"].n == 3


def test_swapped_labels_are_said() -> None:
    pairs = [Preference(str(i), "a", " b", " c") for i in range(20)]
    found = measured_pairs(pairs, [0.0] * 20, [1.0] * 20)
    assert "may be swapped" in found.notes["labels"]
    assert measured_pairs(pairs[:2], [0.0] * 2, [1.0] * 2).notes == {}  # may be chance


def test_an_ensemble_of_reward_models(place: Path, tmp_path: Path) -> None:
    """The run's rows against each member's rewards, asked by itself."""
    run = align(place, tmp_path / "out", method="reward", seeds=(0, 1), epochs=2)
    rows = run.examples()
    folders = [tmp_path / "out", tmp_path / "out" / "members" / "seed-1"]
    prompts, sides = rows["prompt"].tolist(), [rows[name].tolist() for name in ("chosen", "rejected")]
    own = np.array(
        [[find_reward(f"model:{folder}")(prompts, replies) for replies in sides] for folder in folders]
    )
    margins = own[:, 0] - own[:, 1]
    np.testing.assert_allclose(rows["margins"].tolist(), margins.T, atol=1e-4)
    assert rows["margin_spread"].tolist() == pytest.approx(margins.std(0, ddof=1), abs=1e-4)
    assert run.results["pairs"]["ensemble_accuracy"].value == (margins.mean(0) > 0).mean()
    together = ensemble_reward(run, penalty=0.5)
    centred = own[:, 0] - np.array(run.notes["mean_rewards"])[:, None]
    expected = centred.mean(0) - 0.5 * centred.var(0, ddof=1)
    assert together(prompts, sides[0]) == pytest.approx(expected, abs=1e-4)
    assert calibration(run, "pairs").accuracy == run.examples()["correct"].mean()
    assert workbench.load(str(tmp_path / "out")).kind is workbench.Kind.CLASSIFIER


def test_rows_hold_the_implicit_rewards(place: Path, tmp_path: Path) -> None:
    """β times the log-ratio of the policy to the reference, from the log-probabilities of both models."""
    run = align(place, tmp_path / "out", method="dpo", beta=0.2, epochs=2)
    before, after = (workbench.load(str(folder)) for folder in (place / "model", tmp_path / "out"))
    for row in run.examples().to_dict("records"):
        for side in ("chosen", "rejected"):
            prompt = len(before.tokenizer(row["prompt"])["input_ids"])
            ids = before.tokenizer(row["prompt"] + row[side] + "</s>")["input_ids"]
            sums = []
            for model in (after, before):
                with torch.no_grad():
                    logs = model.model(input_ids=torch.tensor([ids])).logits[0].log_softmax(-1)
                sums.append(sum(float(logs[i - 1, ids[i]]) for i in range(prompt, len(ids))))
            assert row["scores"][side] == pytest.approx(0.2 * (sums[0] - sums[1]), abs=1e-4)


def test_kto_takes_scored_replies(place: Path, tmp_path: Path) -> None:
    rows = [{"prompt": word, "response": f" {WORDS[i]}", "label": i == 0} for word in WORDS for i in (0, 1)]
    loaded = load_pairs(rows, method=AlignMethod.KTO)
    assert (len(loaded.train), len(loaded.replies) + 2 * len(loaded.validation)) == (0, len(rows))
    run = align(place, tmp_path / "out", data=rows, method="kto", epochs=3)
    assert run.results["rows"]["margin"].value > 0


def encoder(length: int, **options: Any) -> Encoder:
    return Encoder(word_tokenizer(), AlignSettings(**options), length)


def test_long_prompts_are_refused_cut_or_left_out() -> None:
    pairs = [Preference("short", "the keys", " on", " are"), Preference("long", "the " * 9, " on", " are")]
    with pytest.raises(DataError, match=r"1 prompt of 2 \(first long\) leave no room .* in 8 tokens"):
        encoder(8).encode(pairs)
    found, counts = encoder(8, long_prompts="cut").encode(pairs)
    assert (len(found[1].prompt), counts) == (6, {"prompts_cut": 1})
    found, counts = encoder(8, long_prompts="drop").encode(pairs)
    assert ([one.row.id for one in found], counts) == (["short"], {"rows_dropped": 1})
    found, counts = encoder(3).encode(pairs[:1])
    assert ([len(ids) for ids in found[0].replies], counts) == ([1, 1], {"replies_cut": 2})


def test_replies_are_tokenized_as_trl_does() -> None:
    from datasets import Dataset
    from trl.trainer.dpo_trainer import DPOTrainer

    from workbench.training.preferences.libraries import silent

    tokenizer = workbench.load("novels-decoder").tokenizer
    pairs = [
        Preference("0", "The old man opened", " the letter.", "ing it</s>"),
        Preference("1", "", "It", " is"),
    ]
    maker = DPOTrainer.__new__(DPOTrainer)
    maker._tokenizer = tokenizer
    rows = Dataset.from_list(
        [{"prompt": p.prompt, "chosen": p.chosen, "rejected": p.rejected} for p in pairs]
    )
    arguments = type("Arguments", (), {"dataset_num_proc": None, "max_length": None})()
    with silent():
        expected = maker._prepare_dataset(rows, tokenizer, arguments, "train")
    found, _ = Encoder(tokenizer, AlignSettings(), 100).encode(pairs)
    for one, row in zip(found, expected, strict=True):
        assert [one.prompt, *one.replies] == [row["prompt_ids"], row["chosen_ids"], row["rejected_ids"]]


@pytest.mark.parametrize(
    ("save", "options", "message"),
    [
        (save_encoder, {"method": "dpo"}, "method dpo trains models that go on with a text"),
        (save_bart, {"method": "kto"}, "is an encoder-decoder"),
        (save_llama, {"length": 65}, "length is 65; allowed: 2 to 64"),
        (save_llama, {"reference": "novels-decoder"}, "has another tokenizer"),
        (save_llama, {"method": "kto", "batch_size": 1}, "--batch-size 2 or more"),
    ],
)
def test_models_that_are_refused(
    save: Any, options: dict[str, Any], message: str, place: Path, tmp_path: Path
) -> None:
    source = save(tmp_path / "source")
    with pytest.raises((ModelError, ConfigError), match=message) as error:
        align(place, tmp_path / "out", model=str(source), **options)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


def test_a_model_without_padding_and_end_tokens(place: Path, tmp_path: Path) -> None:
    source = save_llama(tmp_path / "source")
    word_tokenizer(pad_token=None, eos_token=None).save_pretrained(source)
    for name in ("config.json", "generation_config.json"):
        values = json.loads((source / name).read_text())
        (source / name).write_text(json.dumps({**values, "pad_token_id": None, "eos_token_id": None}))
    with pytest.raises(ConfigError, match="neither a padding nor an end token"):
        align(place, tmp_path / "reward", model=str(source), method="reward")
    run = align(place, tmp_path / "policy", model=str(source), method="dpo", epochs=3)
    assert "has no end token" in run.notes["end"]
    assert run.results["pairs"]["margin"].value > 0


def test_pairs_without_a_preference_are_left_out_and_said(place: Path, tmp_path: Path) -> None:
    rows = [json.loads(line) for line in (place / "pairs.jsonl").read_text().splitlines()]
    rows += [{**rows[0], "rejected": rows[0]["chosen"]}, {**rows[1], "chosen": " "}]
    run = align(place, tmp_path / "out", data=rows)
    assert run.notes["left_out"] == {"empty": 1, "equal": 1}
    assert math.isfinite(run.results["rows"]["accuracy"].value)
    with pytest.raises(DataError, match="no row has two different replies"):
        read_preferences(rows[-2:])


def test_from_the_command_line(place: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = [
        "--data",
        str(place / "pairs.jsonl"),
        "--out",
        str(out),
        "--batch-size",
        "8",
        "--device",
        "cpu",
    ]
    done = run_command("align", str(place / "model"), *options)
    assert done.returncode == 0, done.stderr
    assert "accuracy" in done.stdout
    assert done.stderr.strip() == ""
    again = run_command("align", str(place / "model"), *options)
    assert (again.returncode, len(again.stderr.splitlines())) == (2, 1)
    assert run_command("align", str(place / "model"), *options, "--resume").returncode == 0
