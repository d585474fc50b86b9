"""Where a continuation begins: lm-eval's rule says when it leaves a part out, or each text is encoded by itself.

The tokenizer knows whole words, so that "the ca" + "t sat" joins to "the cat sat". Expected scores are plain passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from tests.unit.tiny import tiny_gpt2
from workbench.cli.evaluate import _remarks
from workbench.data import DataIdentity
from workbench.errors import ConfigError
from workbench.estimate import Estimate
from workbench.evaluate import EvaluateSettings, evaluate
from workbench.evaluate._task import TaskData, TaskItem
from workbench.models import Kind, LoadedModel
from workbench.scoring import Engine, Request

INSIDE, WHOLE = Request("the ca", "t sat"), Request("the cat", " sat")


def by_hand(model: LoadedModel, ids: list[int], start: int) -> list[float]:
    with torch.no_grad():
        logits = model.model(torch.tensor([ids])).logits[0].log_softmax(-1)
    return [float(logits[i - 1, ids[i]]) for i in range(start, len(ids))]


def test_the_joint_rule_scores_what_follows_the_shared_token_and_says_so():
    model = tiny_gpt2()
    the, cat, sat = model.tokenizer("the cat sat").input_ids
    inside, whole = Engine(model).score([INSIDE, WHOLE])
    assert (inside.token_ids, inside.inside_token) == ((sat,), True)
    assert (whole.token_ids, whole.inside_token) == ((sat,), False)
    assert inside.token_log_probabilities == pytest.approx(by_hand(model, [the, cat, sat], 2), abs=1e-5)
    assert [s.inside_token for s in Engine(model).score_shared(Engine(model).encode([INSIDE, WHOLE]))] == [
        True,
        False,
    ]


def test_separate_texts_are_scored_in_full():
    model = tiny_gpt2()
    the, sat, unknown = (model.tokenizer(w).input_ids[0] for w in ("the", "sat", "t"))
    (score,) = Engine(model, boundary="separate").score([INSIDE])
    assert (score.token_ids, score.inside_token) == ((unknown, sat), False)
    right = by_hand(model, [the, unknown, unknown, sat], 2)
    assert score.token_log_probabilities == pytest.approx(right, abs=1e-5)


def test_another_name_is_refused():
    with pytest.raises(ConfigError, match=r"unknown boundary 'both'; .*allowed: joint, separate"):
        Engine(tiny_gpt2(), boundary="both")


class Continue:
    """Two continuations, the first of which begins inside a token, under the name of a known task."""

    name, version, kinds, about = "lambada_sample", 1, (Kind.CAUSAL,), "two continuations"

    def load(self, data_dir: Path | None) -> TaskData:
        items = tuple(TaskItem(f"continue/{n}", (r,), {}) for n, r in enumerate((INSIDE, WHOLE)))
        return TaskData(items, DataIdentity("continue", "here", "", 2))

    def example(self, item: TaskItem, answers: Sequence[Any], tokenizer: Any) -> dict[str, Any]:
        return {"score": answers[0].log_probability}

    def metrics(self, examples: pd.DataFrame, seed: int) -> dict[str, Estimate]:
        return {}


def test_an_evaluation_counts_such_items_and_stores_the_choice(tmp_path):
    runs = [
        evaluate(
            tiny_gpt2(),
            EvaluateSettings(tasks=("lambada_sample",), boundary=boundary),  # type: ignore[arg-type]
            tasks=[Continue()],
            out=tmp_path / boundary,
            doctor=False,
        )
        for boundary in ("joint", "separate")
    ]
    assert [run.record.recipe["boundary"] for run in runs] == ["joint", "separate"]
    assert runs[0].notes["begin_inside_a_token"] == {"lambada_sample": 1}
    assert bool(runs[0].examples()["inside_token"].tolist()[0]) is True
    assert (
        "lambada_sample: 1 item with a continuation that begins inside a token" in _remarks(runs[0].notes)[0]
    )
    assert "begin_inside_a_token" not in runs[1].notes
