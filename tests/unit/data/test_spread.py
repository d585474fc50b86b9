"""A limit takes some of every group: by hand, and of MMLU's subjects through the runner."""

from __future__ import annotations

from pathlib import Path

import pytest

from challenge_sets.sets.base import within_limits
from tests.unit.tiny import tiny_causal
from workbench.data import spread
from workbench.evaluate import EvaluateSettings, TaskOptions, evaluate
from workbench.evaluate._names import find_task

GROUPS = ["a"] * 5 + ["b"] * 3 + ["c"] * 1


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (3, [0, 5, 8]),  # the first of each
        (5, [0, 1, 5, 6, 8]),  # c has no second
        (7, [0, 1, 2, 5, 6, 7, 8]),
        (8, [0, 1, 2, 3, 5, 6, 7, 8]),
        (9, list(range(9))),
        (None, list(range(9))),
    ],
)
def test_as_many_of_each_group_as_there_are(limit, expected):
    assert all(spread(GROUPS, limit, seed) == expected for seed in range(5))


def test_the_seed_draws_which_groups_go_first():
    drawn = {tuple(spread(GROUPS, 1, seed)) for seed in range(20)}
    assert drawn == {(0,), (5,), (8,)}
    assert spread(GROUPS, 2, 1) == spread(GROUPS, 2, 1)


def test_data_without_groups_gives_its_first_items():
    assert spread([None] * 6, 4, 3) == [0, 1, 2, 3]


def test_challenge_sets_spread_their_limit():
    settings = TaskOptions(limit=4, limit_per_paradigm=3)
    assert within_limits(["a1", "a2", "a3", "a4", "b1", "b2"], lambda item: item[0], settings) == [
        "a1",
        "a2",
        "b1",
        "b2",
    ]


@pytest.fixture
def mmlu(tmp_path: Path) -> Path:
    """Four subjects of three questions each, without dev files."""
    (tmp_path / "test").mkdir()
    for subject in ("algebra", "botany", "chemistry", "dance"):
        rows = "".join(f"the cat sat on mat {i} ,the,a,cats,keys,A\n" for i in range(3))
        (tmp_path / "test" / f"{subject}_test.csv").write_text(rows)
    return tmp_path


def test_mmlu_with_a_limit_asks_every_subject_and_says_so(mmlu):
    settings = EvaluateSettings(tasks=("mmlu",), data_dir=str(mmlu), limit=4, shots=0)
    run = evaluate(tiny_causal(), settings, out=mmlu, doctor=False)
    assert sorted(run.examples()["subject"]) == ["algebra", "botany", "chemistry", "dance"]
    assert run.notes["spread_over"] == {"mmlu": 4}


def test_mmlu_without_examples_needs_no_dev_files(mmlu):
    task = find_task("mmlu", EvaluateSettings(tasks=("mmlu",), shots=0).options)
    items = task.load(mmlu).items
    assert len(items) == 12
    assert (
        items[0]
        .requests[0]
        .context.startswith("The following are multiple choice questions (with answers) about algebra.")
    )
