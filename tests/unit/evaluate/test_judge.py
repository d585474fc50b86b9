"""A model as a judge: its verdicts in both orders, consistency, position bias, kappa, and what it writes."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from click.testing import CliRunner
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.inter_rater import cohens_kappa

import workbench
from tests.unit.tiny import WORDS, tiny_causal
from workbench.cli import cli
from workbench.data.preferences import read_preferences, read_replies
from workbench.errors import ConfigError, DataError, ModelError, RunError
from workbench.evaluate.judge import JudgeSettings, judge, judged_pairs, write_judged
from workbench.evaluate.preferences.choosers import JudgeChooser, find_chooser
from workbench.evaluate.tasks.task_types.judging import JudgeTask, Kappa
from workbench.scoring import Score
from workbench.statistics import kappa_measure, measure_estimate

_TEMPLATE = "the {prompt} {first} or {second} is"


def _pairs(count: int = 8) -> list[dict[str, str]]:
    return [
        {"prompt": f"{WORDS[n]} {n}", "chosen": "cat sat", "rejected": f"dogs ran {WORDS[n]}"}
        for n in range(count)
    ]


def _example(a: float, b: float, swapped_a: float, swapped_b: float) -> dict[str, Any]:
    """The row of a pair whose letters have these log-probabilities in both orders."""
    task = JudgeTask(data=read_preferences(_pairs(1)))
    answers = [Score((0,), (value,), (0,), (0,)) for value in (a, b, swapped_a, swapped_b)]
    return task.example(task.load(None).items[0], answers, None)


def test_a_liking_for_a_letter_cancels_in_the_verdict() -> None:
    """The same reply is better by one nat, with and without two nats for the letter A."""
    fair, biased = _example(-1, -2, -2, -1), _example(-1, -4, -2, -3)
    assert fair["margin"] == biased["margin"] == 1.0
    assert fair["prefers"] == biased["prefers"] == "first"
    assert (fair["consistent"], biased["consistent"]) == (True, False)
    assert (fair["first_place"], biased["first_place"]) == (0.5, 1.0)
    assert (fair["position_bias"], biased["position_bias"]) == (0.0, 2.0)


def test_verdicts_by_hand() -> None:
    """A rejected reply that is preferred, a tie, and the probability of both letters."""
    other, tie = _example(-2, -1, -1, -2), _example(-1, -2, -1, -2)
    assert (other["prefers"], other["correct"], other["longer"]) == ("second", False, True)
    assert (tie["prefers"], tie["tie"], tie["consistent"]) == ("tie", True, False)
    assert other["letter_mass"] == pytest.approx(math.exp(-1) + math.exp(-2))


def _rows(verdicts: list[str], clusters: list[str] | None = None) -> pd.DataFrame:
    names = clusters or [str(n) for n in range(len(verdicts))]
    return pd.DataFrame({"prefers": verdicts, "cluster": names})


def test_kappa_is_that_of_scikit_learn_and_its_interval_that_of_statsmodels() -> None:
    """Random labels of three kinds; the bootstrap's interval beside the asymptotic one."""
    draw = np.random.default_rng(0)
    first = draw.integers(0, 3, 400)
    second = np.where(draw.random(400) < 0.6, first, draw.integers(0, 3, 400))
    found = measure_estimate(np.stack([first, second], axis=1), kappa_measure, seed=0)
    assert found.value == pytest.approx(cohen_kappa_score(first, second), abs=1e-12)
    table = np.zeros((3, 3))
    np.add.at(table, (first, second), 1)
    known = cohens_kappa(table)
    assert found.value == pytest.approx(known.kappa, abs=1e-12)
    assert found.standard_error == pytest.approx(known.std_kappa, rel=0.08)
    assert (found.low, found.high) == pytest.approx((known.kappa_low, known.kappa_upp), abs=0.012)


def test_kappa_of_one_label_throughout_has_no_value() -> None:
    """Chance agreement is certain; the reason is given."""
    found = measure_estimate(np.zeros((5, 2)), kappa_measure, seed=0)
    assert math.isnan(found.value)
    assert found.undefined == "both judges give one and the same label throughout"


def test_kappa_with_people_does_not_depend_on_places() -> None:
    """Of both orders: twice the agreement less one; ties agree with nobody; right throughout is 1."""
    verdicts = ["first"] * 30 + ["second"] * 10
    found = Kappa().estimate(_rows(verdicts), 0)
    assert found.value == pytest.approx(2 * 30 / 40 - 1)
    people, judged = [0] * 40 + [1] * 40, [0] * 30 + [1] * 10 + [1] * 30 + [0] * 10
    assert found.value == pytest.approx(cohen_kappa_score(people, judged))
    assert found.n == 40
    tied = Kappa().estimate(_rows([*verdicts, *["tie"] * 10]), 0).value
    assert tied == pytest.approx(
        cohen_kappa_score([0] * 50 + [1] * 50, [*judged[:40], *[2] * 10, *judged[40:], *[2] * 10])
    )
    assert tied < found.value
    right = Kappa().estimate(_rows(["first"] * 9), 0)
    assert (right.value, right.high) == (1.0, 1.0)
    assert 0.2 < right.low < 0.9


def test_kappas_interval_covers_in_simulation() -> None:
    """Agreement of seven in ten, thirty samples of sixty pairs: the interval holds the truth in most."""
    draw = np.random.default_rng(1)
    covered = 0
    for seed in range(30):
        verdicts = np.where(draw.random(60) < 0.7, "first", "second").tolist()
        found = Kappa().estimate(_rows(verdicts), seed)
        covered += found.low <= 0.4 <= found.high
    assert covered >= 26


def test_letters_are_scored_after_the_template_in_both_orders(tmp_path: Path) -> None:
    """Against passes of one's own; no letter is a word of this tokenizer, so that all pairs are ties."""
    model = tiny_causal()
    run = judge(model, _pairs(), template=_TEMPLATE, out=tmp_path, doctor=False)
    rows = run.examples().sort_values("id", ignore_index=True)
    replies = ("cat sat", f"dogs ran {WORDS[0]}")
    texts = [f"the {WORDS[0]} 0 {one} or {other} is A" for one, other in (replies, replies[::-1])]
    expected = 0.0
    for text in texts:
        ids = model.tokenizer(text)["input_ids"]
        with torch.no_grad():
            logs = model.model(torch.tensor([ids])).logits[0, -2].log_softmax(-1)
        expected += float(logs[model.tokenizer.unk_token_id].exp())
    assert rows["letter_mass"][0] == pytest.approx(expected, rel=1e-4)
    assert set(rows["prefers"]) == {"tie"}
    with pytest.raises(DataError, match="no pair has a verdict"):
        judged_pairs(run)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The bundled decoder on a few pairs."""
    model = workbench.load("novels-decoder")
    return model, judge(model, _pairs(), out=tmp_path_factory.mktemp("judged"), doctor=False)


def test_swapped_data_swap_the_verdicts_alone(judged: Any, tmp_path: Path) -> None:
    """Margins change their sign, consistency and bias stay."""
    model, run = judged
    swapped = [{**row, "chosen": row["rejected"], "rejected": row["chosen"]} for row in _pairs()]
    other = judge(model, swapped, out=tmp_path, doctor=False)
    one, two = (r.examples().sort_values("id", ignore_index=True) for r in (run, other))
    np.testing.assert_allclose(one["margin"], -two["margin"], atol=1e-4)
    np.testing.assert_allclose(one["position_bias"], two["position_bias"], atol=1e-4)
    assert one["consistent"].tolist() == two["consistent"].tolist()
    results = run.results["rows"], other.results["rows"]
    assert results[0]["agreement"].value == pytest.approx(1 - results[1]["agreement"].value)


def test_what_the_judge_prefers_is_read_as_preferences(judged: Any, tmp_path: Path) -> None:
    """The replies as they were, the preferred one as chosen; those that are consistent are fewer or as many."""
    _, run = judged
    file = tmp_path / "judged.jsonl"
    count = write_judged(run, file)
    by_id = run.examples().set_index("id")
    lines = list(map(json.loads, file.read_text().splitlines()))
    assert count == len(lines) == len(read_preferences(file).pairs) == len(_pairs())
    for line in lines:
        row = by_id.loc[line["id"]]
        first = bool(row["margin"] > 0)
        assert (line["chosen"] == row["first"], line["rejected"] == row["first"]) == (first, not first)
        assert line["prompt"] == row["prompt"]
    consistent = int(by_id["consistent"].sum())
    if consistent:
        assert len(judged_pairs(run, consistent=True)) == consistent


def test_a_judge_chooses_between_models_replies_and_ties_equal_ones(judged: Any) -> None:
    """The margins of the stored run, halved; a reply that both give is a tie without being read."""
    model, run = judged
    rows = run.examples().sort_values("id", ignore_index=True)
    replies = {"a": [*rows["first"], "same"], "b": [*rows["second"], "same"]}
    chooser = JudgeChooser(model)
    scores = chooser([*rows["prompt"], "p"], replies)["a", "b"]
    np.testing.assert_allclose([a - b for a, b in scores], [*rows["margin"], 0.0], atol=1e-4)
    assert chooser.name == "judge:novels-decoder"
    with pytest.raises(ConfigError, match="names no judge; write judge:MODEL"):
        find_chooser("judge:")


def test_replies_that_nobody_judged_have_no_agreement(judged: Any, tmp_path: Path) -> None:
    """Columns first and second."""
    model, _ = judged
    rows = [{"prompt": row["prompt"], "first": row["chosen"], "second": row["rejected"]} for row in _pairs(3)]
    assert read_replies(rows)[1] is False
    run = judge(model, rows, out=tmp_path, doctor=False)
    assert "consistency" in run.results["rows"]
    assert not {"agreement", "kappa", "brier"} & set(run.results["rows"])


def test_braces_in_texts_are_texts() -> None:
    """A prompt that names the places of the template changes nothing else."""
    rows = [{"prompt": "{first} {second}", "chosen": "yes", "rejected": "{prompt}"}]
    task = JudgeTask(data=read_preferences(rows), template=_TEMPLATE)
    asked = task.load(None).items[0].requests[0]
    assert asked.context == "the {first} {second} yes or {prompt} is"  # type: ignore[union-attr]


def test_what_cannot_be_judged_is_said(tmp_path: Path) -> None:
    """Templates without places, encoders, another verb's run."""
    with pytest.raises(ConfigError, match=r"lacks \{second\}"):
        JudgeSettings(template="{prompt} {first}")
    with pytest.raises(ModelError, match="judging replies"):
        judge("sentiment-encoder", _pairs(1), doctor=False)
    run = workbench.evaluate("novels-decoder", tasks="lambada_sample", limit=1, out=tmp_path, doctor=False)
    with pytest.raises(RunError, match="was made by workbench evaluate, not by judge"):
        judged_pairs(run)


def test_the_verb_stores_a_run_that_resumes(tmp_path: Path) -> None:
    """Figures printed, preferences written; the run's own recipe goes on; --consistent needs --pairs."""
    file, pairs = tmp_path / "own.jsonl", tmp_path / "judged.jsonl"
    file.write_text("\n".join(map(json.dumps, [*_pairs(3), {"prompt": "p", "chosen": "a", "rejected": "a"}])))
    words = ["judge", "novels-decoder", "--data", str(file), "--no-doctor", "--out", str(tmp_path / "runs")]
    shown = CliRunner().invoke(cli, [*words, "--pairs", str(pairs)]).output
    assert "consistency" in shown
    assert "left out, as they have no two different replies: 1 with equal replies" in shown
    (run,) = (tmp_path / "runs").iterdir()
    again = CliRunner().invoke(cli, ["judge", "--resume", str(run), "--json"])
    assert json.loads(again.output)["run"] == str(run)
    refused = CliRunner().invoke(cli, [*words, "--consistent"])
    assert "--consistent is of --pairs" in str(refused.exception)
