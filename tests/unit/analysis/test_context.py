"""Context: each change does what its name says, curves are those of scores worked out one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from tests.unit.tiny import tiny_causal
from tests.unit.trace import tiny
from workbench.analysis.context import (
    Condition,
    ContextItem,
    ContextSettings,
    Operation,
    ToleranceOf,
    WordClass,
    conditions_of,
    context_examples,
    context_points,
    context_run,
    edited,
    effective_length,
    items_of_text,
    points_frame,
)
from workbench.data import DataIdentity
from workbench.errors import DataError, ModelError

ITEM = ContextItem("one", "the cats sat on a mat and the", " table")
POOL = {WordClass.ALL: ["key"], WordClass.CONTENT: ["dogs"], WordClass.FUNCTION: ["are"]}


@pytest.mark.parametrize(
    ("condition", "expected", "changed"),
    [
        (Condition(Operation.KEEP, WordClass.ALL, 3), "mat and the", 5),
        (Condition(Operation.KEEP, WordClass.ALL, 0), "", 8),
        (Condition(Operation.KEEP, WordClass.ALL, 20), ITEM.context, 0),
        (Condition(Operation.DROP, WordClass.CONTENT, 3), "the on a mat and the", 2),
        (Condition(Operation.DROP, WordClass.FUNCTION, 3), "cats sat mat and the", 3),
        (Condition(Operation.REPLACE, WordClass.CONTENT, 2), "the dogs dogs on a dogs and the", 3),
        (Condition(Operation.REPLACE, WordClass.ALL, 5), "key key key on a mat and the", 3),
        (Condition(Operation.DROP, WordClass.CONTENT, 3, window=3), "the cats on a mat and the", 1),
    ],
)
def test_each_change(condition: Condition, expected: str, changed: int) -> None:
    assert edited(ITEM, condition, POOL, seed=0) == (expected, changed)


def test_shuffling_keeps_the_words_and_the_near_ones_in_place_and_depends_on_the_seed_alone() -> None:
    condition = Condition(Operation.SHUFFLE, WordClass.ALL, 2)
    text, _ = edited(ITEM, condition, POOL, seed=1)
    assert sorted(text.split()) == sorted(ITEM.context.split())
    assert text.split()[-2:] == ["and", "the"]
    assert edited(ITEM, condition, POOL, seed=1)[0] == text
    content, _ = edited(ITEM, Condition(Operation.SHUFFLE, WordClass.CONTENT, 2), POOL, seed=1)
    assert [w for w in content.split() if w in ("the", "on", "a", "and")] == ["the", "on", "a", "and", "the"]


@pytest.mark.parametrize("operation", ["drop content", "drop function", "keep"])
def test_dropped_words_leave_no_double_space(operation: str) -> None:
    for condition in conditions_of([operation], [0, 1, 3]):
        for item in items():
            text, changed = edited(item, condition, {}, seed=0)
            assert "  " not in text + item.target
            assert len((text + item.target).split()) == len((item.context + item.target).split()) - changed


def test_operations_are_written_with_their_words() -> None:
    found = conditions_of(["keep", "drop", "shuffle content"], [1, 5])
    assert [c.key for c in found] == ["full", "keep@1", "keep@5", "shuffle content@1", "shuffle content@5"]
    with pytest.raises(DataError, match="unknown operation 'mask all'"):
        conditions_of(["mask all"], [1])
    with pytest.raises(DataError, match="distances"):
        conditions_of(["keep"], [-1])


def items() -> list[ContextItem]:
    return [
        ITEM,
        ContextItem("two", "dogs ran to the cabinet and the cat sat on the", " mat"),
        ContextItem("three", "a key is on the table and", " keys"),
    ]


def test_losses_are_those_of_plain_forward_passes() -> None:
    model = tiny_causal()
    conditions = conditions_of(["keep", "drop content"], [2, 4])
    found = context_examples(model, items(), conditions, seed=0)
    for row in found.itertuples():
        ids = model.tokenizer(f"{row.context}{row.target}", add_special_tokens=False).input_ids
        with torch.no_grad():
            logits = model.model(torch.tensor([ids])).logits[0, -2].log_softmax(-1)
        assert row.log_probability == pytest.approx(float(logits[ids[-1]]), abs=1e-5)
        assert row.greedy == (int(logits.argmax()) == ids[-1])
    points = context_points(found)
    full = -found[found.condition == "full"].set_index("item").log_probability
    kept = -found[found.condition == "keep@2"].set_index("item").log_probability
    point = next(p for p in points if p.curve == "keep" and p.distance == 2)
    assert point.loss.value == pytest.approx(kept.mean())
    assert point.increase is not None
    assert point.increase.value == pytest.approx((kept - full[kept.index]).mean())
    assert points[0].curve == "full context"
    assert len(points_frame(points)) == 5


def rows(losses: dict[str, list[float]]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "item": f"{i}",
                "condition": key,
                "curve": "keep" if "@" in key else "full context",
                "distance": int(key.split("@")[1]) if "@" in key else 0,
                "log_probability": -loss,
                "greedy": False,
                "changed": 1,
            }
            for key, values in losses.items()
            for i, loss in enumerate(values)
        ]
    )


def test_effective_length_is_the_first_from_which_on_the_loss_is_within_one_percent() -> None:
    """Full 2.0, so 2.02 is allowed: 5 words are enough by chance, 10 are not, 20 and 50 are."""
    losses = {"full": 2.0, "keep@1": 4.0, "keep@5": 2.01, "keep@10": 2.5, "keep@20": 2.019, "keep@50": 2.0}
    frame = rows({key: [value] * 4 for key, value in losses.items()})
    found = effective_length(frame)
    assert found is not None
    assert (
        found.text(0) == "20, interval undefined (every resample of the items gives the same number of words)"
    )
    # ln 1.01 is 0.00995: of the perplexity only 50 words are within 1 %, and with less loss more is allowed of it
    strict = effective_length(frame, of="perplexity")
    assert strict is not None
    assert strict.value == 50
    low = rows({key: [value] * 4 for key, value in {"full": 0.5, "keep@5": 0.509, "keep@10": 0.504}.items()})
    assert [effective_length(low, of=of).value for of in ToleranceOf] == [10, 5]  # type: ignore[union-attr]
    with pytest.raises(DataError, match="unknown of 'bits'"):
        effective_length(frame, of="bits")
    never = effective_length(rows({"full": [1.0] * 4, "keep@5": [3.0] * 4}))
    assert never is not None
    assert np.isinf(never.value)
    assert effective_length(rows({"full": [1.0] * 4})) is None


def test_words_drawn_from_a_text_come_with_what_stands_before_them() -> None:
    text = "the cats sat on a mat and the dogs ran to the table"
    found = items_of_text(text, "text", count=2, longest=4, seed=0)
    words = text.split()
    for item in found:
        place = int(item.id.rpartition("-")[2])
        assert item.target == f" {words[place]}"
        assert item.context.split() == words[max(place - 4, 0) : place]
    with pytest.raises(DataError, match="give a longer text"):
        items_of_text("cat")


def test_a_run_that_was_cut_short_goes_on_to_the_same_numbers(tmp_path: Path) -> None:
    model = tiny_causal()
    settings = ContextSettings(source="words", operations=("keep", "shuffle all"), distances=(2, 4))
    identity = DataIdentity("words", "here", "0" * 64, 3)
    whole = context_run(model, items(), identity, settings, out=tmp_path / "whole")
    started = context_run(model, items(), identity, settings, out=tmp_path / "cut")
    (started.path / "results.json").unlink()  # as if it had been killed before the end
    merged = started.path / "examples.parquet"
    (started.path / "chunks").mkdir()
    merged.unlink()
    again = context_run(model, items(), identity, settings, resume=started.path)
    assert again.complete
    assert {k: {m: e.value for m, e in v.items()} for k, v in again.results.items()} == {
        k: {m: e.value for m, e in v.items()} for k, v in whole.results.items()
    }
    assert set(whole.results) == {"words", "words/keep", "words/shuffle all"}


def test_only_causal_models_can_be_asked() -> None:
    with pytest.raises(ModelError, match="needs a causal model"):
        context_examples(tiny.bert(), items(), conditions_of(["keep"], [1]))
