"""Preferences as a task: scores of reward models and language models, ties, calibration, parts, remarks."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest
import torch
from click.testing import CliRunner
from transformers import LlamaConfig, LlamaForSequenceClassification

import workbench
from tests.unit.tiny import WORDS, loaded, tiny_causal, word_tokenizer
from workbench.cli import cli
from workbench.data.preferences import parse_preference
from workbench.data.rows import Preference
from workbench.data.source import Source
from workbench.errors import DataError, TaskError
from workbench.evaluate import own_task
from workbench.evaluate._requests import HeadScores
from workbench.evaluate._task import TaskItem
from workbench.evaluate.tasks.task_types import PreferenceTask
from workbench.evaluate.tasks.task_types.preferences import compared_lengths, compared_refusals
from workbench.models import Kind, LoadedModel
from workbench.models.problem import ProblemType
from workbench.text.refusals import is_refusal

_TASK = PreferenceTask(
    name="p", about="", source=Source(name="p", files={"test": ()}, parse=parse_preference)
)


def _rows(scores: list[tuple[float, float]], pairs: list[Preference] | None = None) -> pd.DataFrame:
    """The example rows of pairs that a reward model gives these scores."""
    found = []
    for number, (chosen, rejected) in enumerate(scores):
        pair = pairs[number] if pairs else Preference(f"p-{number}", "q", "a b", "c")
        answers = [HeadScores((score,), ("reward",), ProblemType.NUMBER) for score in (chosen, rejected)]
        found.append({**_TASK.example(_TASK._item(pair), answers, None), "id": pair.id})
    return pd.DataFrame(found)


def test_metrics_equal_a_calculation_by_hand() -> None:
    """Accuracy, ties, margin, Brier score of the margin's sigmoid."""
    scores = [(2.0, 1.0), (0.0, 3.0), (1.0, 1.0), (0.5, -1.0)]
    found = _TASK.metrics(_rows(scores), 0)
    assert found["accuracy"].value == 0.5
    assert (found["accuracy"].method, found["ties"].value) == ("wilson", 0.25)
    assert found["margin"].value == pytest.approx((1 - 3 + 0 + 1.5) / 4)
    shares = [1 / (1 + math.exp(b - a)) for a, b in scores]
    assert found["brier"].value == pytest.approx(sum(2 * (1 - p) ** 2 for p in shares) / 4)
    assert "accuracy_per_token" not in found


def test_probabilities_that_are_true_are_calibrated_and_others_are_not() -> None:
    """Verdicts drawn with their own probability, then with twice the margin that they have."""
    generator = torch.Generator().manual_seed(0)
    margins = torch.randn(4000, generator=generator) * 2
    drawn = torch.rand(4000, generator=generator) < margins.sigmoid()
    signed = torch.where(drawn, margins, -margins).tolist()
    true, twice = (
        _TASK.metrics(_rows([(factor * m, 0.0) for m in signed]), 0)["calibration_error"].value
        for factor in (1, 2)
    )
    assert true < 0.02 < 0.05 < twice


def test_a_constant_reward_ties_everywhere_and_is_said() -> None:
    """Right nowhere; calibrated all the same, since it says one half."""
    rows = _rows([(1.0, 1.0)] * 400)
    found = _TASK.metrics(rows, 0)
    assert (found["accuracy"].value, found["ties"].value) == (0.0, 1.0)
    assert found["calibration_error"].value < 0.08
    assert _TASK.remarks(rows) == ["every pair is a tie: the model gives all replies the same score"]


def test_swapped_labels_are_said_where_accuracy_is_far_below_one_half() -> None:
    """Ten of eighty right; not at 45 of a hundred, nor with five pairs."""
    (said,) = _TASK.remarks(_rows([(1.0, 0.0)] * 10 + [(0.0, 1.0)] * 70 + [(0.0, 0.0)] * 9))
    assert "the rejected reply scores higher in 88% of 80 pairs" in said
    assert "may be swapped" in said
    assert not _TASK.remarks(_rows([(1.0, 0.0)] * 45 + [(0.0, 1.0)] * 55))
    assert not _TASK.remarks(_rows([(0.0, 1.0)] * 5))


def test_parts_by_length_and_refusal() -> None:
    """Each pair is in its part; a part without pairs is undefined, with the reason."""
    pairs = [
        Preference("1", "q", "I can't help with that.", "Sure."),
        Preference("2", "q", "Yes.", "Take two of them."),
        Preference("3", "q", "Take two of them.", "No."),
    ]
    assert [compared_lengths(p) for p in pairs] == ["chosen longer", "chosen shorter", "chosen longer"]
    assert [compared_refusals(p) for p in pairs] == ["chosen refuses", "neither refuses", "neither refuses"]
    found = _TASK.metrics(_rows([(1.0, 0.0), (0.0, 1.0), (0.0, 1.0)], pairs), 0)
    assert (found["accuracy_chosen_longer"].value, found["accuracy_chosen_longer"].n) == (0.5, 2)
    assert found["accuracy_chosen_shorter"].value == 0.0
    assert found["accuracy_chosen_refuses"].value == 1.0
    assert "no item has refusal 'rejected refuses'" in (found["accuracy_rejected_refuses"].undefined or "")


@pytest.mark.parametrize(
    ("reply", "refuses"),
    [
        ("I’m sorry, but I can’t help you with that.", True),
        ("I'd rather not talk about it.", True),
        ("That would be illegal.", True),
        ("I am not comfortable with this.", True),
        ("I can help you with that.", False),
        ("I don't know.", False),
        ("You can't miss it.", False),
    ],
)
def test_refusals_are_found_by_their_phrases(reply: str, refuses: bool) -> None:
    """Curly apostrophes too; not knowing is no refusal."""
    assert is_refusal(reply) is refuses


def _reward_model(positions: int = 64) -> LoadedModel:
    """A tiny Llama with one number as its output."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=4 + len(WORDS),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=positions,
        initializer_range=0.3,
        num_labels=1,
        pad_token_id=0,
    )
    return loaded(LlamaForSequenceClassification(config), Kind.CLASSIFIER, word_tokenizer())


def _pairs(count: int = 6) -> list[dict[str, str]]:
    return [
        {"prompt": f"the {WORDS[n]} ", "chosen": "cat sat", "rejected": f"dogs ran {WORDS[n]}"}
        for n in range(count)
    ]


def test_a_reward_model_scores_the_whole_dialogue() -> None:
    """Against its own forward pass."""
    model = _reward_model()
    run = workbench.evaluate(model, tasks=own_task(_pairs(), "own"), doctor=False)
    rows = run.examples()
    ids = model.tokenizer(f"the {WORDS[0]} cat sat", return_tensors="pt")["input_ids"]
    with torch.no_grad():
        expected = float(model.model(ids).logits[0, 0])
    first = rows.sort_values("id").iloc[0]
    assert first["log_probability"] == pytest.approx(expected, abs=1e-5)
    assert first["correct"] == (first["margin"] > 0)


def test_a_dialogue_that_is_too_long_loses_its_beginning_not_its_reply() -> None:
    """So that both replies are read, and scored differently."""
    model = _reward_model(positions=8)
    rows = [{"prompt": "the a keys key to cabinet is are on ", "chosen": "cat sat", "rejected": "dogs ran"}]
    run = workbench.evaluate(model, tasks=own_task(rows, "own"), doctor=False)
    assert run.results["own"]["ties"].value == 0.0


def test_language_models_and_remarks_reach_the_run() -> None:
    """Log-probabilities of the replies; a remark where labels are swapped."""
    model = tiny_causal()
    task = own_task(_pairs(12), "own")
    first = workbench.evaluate(model, tasks=task, doctor=False)
    swapped = [
        {"prompt": row["prompt"], **({"chosen": a, "rejected": b} if margin < 0 else {"chosen": b, "rejected": a})}
        for row, margin in zip(_pairs(12), first.examples().sort_values("id")["margin"], strict=True)
        for a, b in [(row["chosen"], row["rejected"])]
    ]  # fmt: skip
    run = workbench.evaluate(model, tasks=own_task(swapped, "own"), doctor=False)
    assert run.results["own"]["accuracy"].value == 0.0
    assert "may be swapped" in run.notes["remarks"]["own"][0]
    assert {"accuracy_per_token", "calibration_error"} <= set(run.results["own"])


def test_a_classifier_of_labels_is_refused() -> None:
    """It has several numbers."""
    answers: list[Any] = [HeadScores((0.0, 1.0), ("a", "b"))] * 2
    with pytest.raises(TaskError, match="needs a reward model with one number"):
        _TASK.example(TaskItem("p-0", (), {}), answers, None)


def test_tables_without_a_pair_are_refused() -> None:
    """Equal replies alone leave nothing."""
    task = own_task([{"prompt": "p", "chosen": "a", "rejected": "a "}], "own")
    with pytest.raises(
        DataError, match="none of its 1 rows can be used: a reply is empty, or both are equal"
    ):
        workbench.evaluate(tiny_causal(), tasks=task, doctor=False)


def test_the_verb_tasks_reports_on_preferences(tmp_path: Any) -> None:
    """Of a file, and of a set by name in a folder; not of other tasks."""
    file = tmp_path / "preferences.jsonl"
    file.write_text('{"prompt": "p", "chosen": "a b", "rejected": "c"}\n')
    for words in (["tasks", str(file)], ["tasks", "preferences", "--data-dir", str(tmp_path)]):
        shown = CliRunner().invoke(cli, words).output
        assert "share whose chosen reply is longer" in shown
    refused = CliRunner().invoke(cli, ["tasks", "lambada_sample", "--data-dir", str(tmp_path)])
    assert "--data-dir is of preferences" in str(refused.exception)
