"""Blinded ballots: order and sides, votes that are stored, changed and gone on with, and the result."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from workbench.errors import RunError
from workbench.evaluate.preferences import Ballot, Choice, compare_preferences, preferences_of
from workbench.report import render_report
from workbench.runs import Run, RunFolder, RunRecord


def store_replies(root: Path, replies: list[tuple[str, str]]) -> Run:
    """A run of ``workbench compare --preferences`` without anyone who prefers."""
    record = RunRecord.new(
        "compare",
        recipe={"models": ["base", "tuned"], "by": None, "seed": 0},
        model={"name": "base vs tuned", "models": {}},
        data={"prompts": {"sha256": "0" * 64}},
        seeds={},
        label="base-vs-tuned",
    )
    folder = RunFolder.create(root, record)
    rows = [
        {
            **{"id": f"p-{n:05d}/0", "prompt": f"prompt {n}", "first": "base", "second": "tuned"},
            **{"reply_first": first, "reply_second": second, "tokens_first": 1, "tokens_second": 1},
        }
        for n, (first, second) in enumerate(replies)
    ]
    folder.append(rows)
    folder.finish({}, {"prompts": len(rows)})
    return Run.open(folder.path)


def good_is_tuned(count: int = 20, same: int = 0) -> list[tuple[str, str]]:
    return [(f"bad {n}", f"good {n}") for n in range(count)] + [("same", "same")] * same


def vote_for_good(ballot: Ballot, place: int) -> None:
    ballot.cast(place, Choice.LEFT if ballot.items[place].left.startswith("good") else Choice.RIGHT)


def test_order_and_sides_are_drawn_by_the_seed(tmp_path: Path) -> None:
    source = store_replies(tmp_path, good_is_tuned())
    one, again, other = (Ballot.begin(source, seed=seed).items for seed in (1, 1, 2))
    assert one == again
    assert [item.prompt for item in one] != [item.prompt for item in other]
    assert sorted(item.prompt for item in one) == sorted(f"prompt {n}" for n in range(20))
    assert 4 <= sum(item.swapped for item in one) <= 16
    for item in one:
        shown = (item.right, item.left) if item.swapped else (item.left, item.right)
        assert shown == (item.row["reply_first"], item.row["reply_second"])


def test_votes_count_for_the_model_whatever_its_side(tmp_path: Path) -> None:
    ballot = Ballot.begin(store_replies(tmp_path, good_is_tuned(same=2)), voter="Ada", seed=3)
    for place in range(len(ballot.items)):
        vote_for_good(ballot, place)
    run = ballot.finish()
    (pair,) = preferences_of(run).pairs
    assert (pair.losses, pair.wins, pair.ties, pair.same) == (20, 0, 2, 2)
    assert pair.preferred == "tuned"
    assert run.results["base vs tuned"]["win_rate"].value == pytest.approx(1 / 22)
    rows = run.examples()
    assert set(rows["voter"]) == {"Ada"}
    assert rows["preferred"].value_counts().to_dict() == {"tuned": 20, "tie": 2}
    assert rows["left"].nunique() == 2
    assert "tuned is preferred" in render_report(run)
    read = compare_preferences(["base", "tuned"], by=f"votes:{run.path}", out=tmp_path)
    assert read.results["base vs tuned"]["win_rate"].value == pytest.approx(1 / 22)


def test_a_ballot_goes_on_where_it_was_and_a_vote_can_be_changed(tmp_path: Path) -> None:
    ballot = Ballot.begin(store_replies(tmp_path, good_is_tuned(4)), seed=0)
    ballot.cast(0, "left")
    ballot.cast(1, "tie")
    ballot.cast(0, "right")
    with pytest.raises(RunError, match="2 of 4 comparisons have no vote yet"):
        ballot.finish()
    again = Ballot.open(Run.open(ballot.path))
    assert again.items == ballot.items
    assert again.choices == {0: Choice.RIGHT, 1: Choice.TIE}
    assert again.place == 2
    for place in (2, 3):
        again.cast(place, "tie")
    run = again.finish()
    assert len(run.examples()) == 5  # the vote that was changed stays on record
    (pair,) = preferences_of(run).pairs
    assert pair.comparisons == 4
    assert pair.ties == 3
    assert again.finish().path == run.path
    with pytest.raises(RunError, match="is finished"):
        again.cast(0, "left")


def test_a_limit_takes_a_part(tmp_path: Path) -> None:
    source = store_replies(tmp_path, good_is_tuned(20))
    ballot = Ballot.begin(source, seed=5, limit=3)
    assert len(ballot.items) == 3
    assert Ballot.begin(source, seed=5).items[:3] == ballot.items


def test_what_cannot_be_voted_on(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="both replies are the same to every prompt"):
        Ballot.begin(store_replies(tmp_path, [("same", "same")]))
    source = store_replies(tmp_path, good_is_tuned(2))
    ballot = Ballot.begin(source)
    with pytest.raises(RunError, match="holds no replies to vote on"):
        Ballot.begin(Run.open(ballot.path))
    with pytest.raises(RunError, match="was made by workbench compare and holds no votes"):
        Ballot.open(source)
    other = store_replies(tmp_path, good_is_tuned(3))
    shutil.rmtree(source.path)
    other.path.rename(source.path)
    with pytest.raises(RunError, match="were changed after votes on them began"):
        Ballot.open(Run.open(ballot.path))
