"""Preferences in every shape they come in, what is left out, the split by prompt, the report."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from workbench.data.preference_report import preference_report
from workbench.data.preferences import (
    as_rated,
    pairs_of_scores,
    read_preferences,
    read_rated,
    split_by_prompt,
)
from workbench.data.rows import Preference
from workbench.errors import DataError

_USER = {"role": "user", "content": "Two and two?"}


def _assistant(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def _only(rows: Any) -> Preference:
    (pair,) = read_preferences(rows).pairs
    return pair


def _lines(path: Path, *rows: Any) -> Path:
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return path


def test_whole_dialogues_share_their_prompt_up_to_the_last_common_turn() -> None:
    """HH-RLHF: two texts; turns are known, replies keep the blank before them."""
    before = "\n\nHuman: Hi\n\nAssistant: Hello\n\nHuman: Two and two?\n\nAssistant:"
    pair = _only([{"chosen": before + " Four", "rejected": before + " Forty"}])
    assert (pair.prompt, pair.chosen, pair.rejected) == (before, " Four", " Forty")
    assert pair.turns == (("user", "Hi"), ("assistant", "Hello"), ("user", "Two and two?"))


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "Two and two?", "chosen": [_USER, _assistant("4")], "rejected": [_USER, _assistant("5")]},
        {"chosen": [_USER, _assistant("4")], "rejected": [_USER, _assistant("5")]},
        {"prompt": [_USER], "chosen": [_assistant("4")], "rejected": [_assistant("5")]},
        {"prompt": [_USER], "chosen": "4", "rejected": "5"},
        {"chosen": json.dumps([_USER, _assistant("4")]), "rejected": json.dumps([_USER, _assistant("5")])},
    ],
    ids=["ultrafeedback", "implicit prompt", "explicit prompt", "texts behind messages", "JSON in cells"],
)
def test_lists_of_messages_are_one_pair_whatever_their_shape(row: dict[str, Any]) -> None:
    """The same messages, the same text."""
    pair = _only([row])
    assert pair.turns == (("user", "Two and two?"),)
    assert (pair.prompt, pair.chosen, pair.rejected) == ("\n\nHuman: Two and two?\n\nAssistant:", " 4", " 5")


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".jsonl", ".json", ".parquet"])
def test_own_tables_of_every_format_give_the_same_pairs(ending: str, tmp_path: Path) -> None:
    """Same content, same hash."""
    frame = pd.DataFrame({"prompt": ["a", "b"], "chosen": [" x", " y"], "rejected": [" z", " w"]})
    file = tmp_path / f"own{ending}"
    {
        ".csv": lambda: frame.to_csv(file, index=False),
        ".tsv": lambda: frame.to_csv(file, index=False, sep="\t"),
        ".jsonl": lambda: frame.to_json(file, orient="records", lines=True),
        ".json": lambda: frame.to_json(file, orient="records"),
        ".parquet": lambda: frame.to_parquet(file),
    }[ending]()
    found = read_preferences(file)
    named = [(pair.prompt, pair.chosen, pair.rejected) for pair in read_preferences(frame).pairs]
    assert [(pair.prompt, pair.chosen, pair.rejected) for pair in found.pairs] == named
    assert (found.name, found.identity.rows) == ("own", 2)


def test_rows_that_say_nothing_are_left_out_and_counted(tmp_path: Path) -> None:
    """Empty replies and equal ones; the others keep their place in their id."""
    rows = [{"prompt": "p", "chosen": c, "rejected": r} for c, r in (("a", " "), ("a", "a "), ("a", "b"))]
    found = read_preferences(_lines(tmp_path / "own.jsonl", *rows))
    assert found.left_out == {"empty": 1, "equal": 1}
    assert [pair.id for pair in found.pairs] == ["own-00002"]
    report = preference_report(found)
    assert (report.pairs, report.empty, report.equal) == (1, 1, 1)
    with pytest.raises(DataError, match=r"no row has two different replies \(1 empty, 1 equal\)"):
        read_preferences(rows[:2])


def test_scored_replies_give_all_pairs_of_different_scores() -> None:
    """Three replies to one prompt, two of them equally good: two pairs; one prompt alone gives none."""
    scored = [("p", "a", 3), ("p", "b", 1), ("p", "c", 3), ("q", "d", 2)]
    rows = [{"prompt": p, "response": r, "score": s} for p, r, s in scored]
    pairs = read_preferences(rows).pairs
    assert [(pair.chosen, pair.rejected) for pair in pairs] == [("a", "b"), ("c", "b")]
    assert len({pair.cluster for pair in pairs}) == 1
    with pytest.raises(DataError, match="no prompt has two replies with different scores"):
        pairs_of_scores(read_rated(rows[2:]).replies)


def test_labels_and_pairs_become_scores() -> None:
    """True and false, 1 and 0, or the two sides of a pair."""
    rows = [{"prompt": "p", "completion": "a", "label": label} for label in (True, "false", 1, "0")]
    assert [reply.score for reply in read_rated(rows).replies] == [1, 0, 1, 0]
    pairs = [{"prompt": "p", "chosen": "a", "rejected": "b"}]
    assert [(reply.response, reply.score) for reply in read_rated(pairs).replies] == [("a", 1), ("b", 0)]
    assert read_rated(pairs).replies == as_rated(read_preferences(pairs).pairs)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"prompt": "p", "rejected": "b"}], "rows, row 1: column 'chosen' is missing; it has prompt, rejected"),
        ([{"prompt": "p", "answer": "b"}], "rows, row 1: no column 'chosen'; preferences have the columns"),
        ([{"prompt": "p", "chosen": 3, "rejected": "b"}], "row 1: chosen is 3; give a text, or a list"),
        ([{"prompt": "p", "chosen": [{"role": "user"}], "rejected": "b"}], "each needs the texts 'role'"),
        ([{"prompt": "p", "chosen": [_assistant("a")], "rejected": "b"}], "one of chosen and rejected is a text"),
        (
            [{"chosen": [_USER, _assistant("a")], "rejected": [_assistant("x"), _assistant("b")]}],
            "differ before their last message",
        ),
        ([{"chosen": [_USER], "rejected": [_USER]}], "chosen ends with a message of 'user'"),
        ([{"prompt": "p", "response": "a", "score": "good"}], "row 1: score is 'good', not a finite number"),
        ([{"prompt": "p", "response": "a", "score": "nan"}], "row 1: score is 'nan', not a finite number"),
        ([{"prompt": "p", "response": " ", "score": 1}], "row 1: the response is empty"),
        ([], "rows has no rows"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_row(rows: Any, said: str) -> None:
    """One line that names the row."""
    with pytest.raises(DataError) as error:
        read_preferences(rows)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_tables_that_are_missing_or_empty_are_named(tmp_path: Path) -> None:
    """No such name, a file with a header alone, a split of a file."""
    with pytest.raises(DataError, match=r"no preferences 'hh_rlfh'.*hh_rlhf"):
        read_preferences("hh_rlfh")
    (tmp_path / "own.csv").write_text("prompt,chosen,rejected\n")
    with pytest.raises(DataError, match=r"own\.csv has no rows"):
        read_preferences(tmp_path / "own.csv")
    with pytest.raises(DataError, match="is one table and has no split 'test'"):
        read_preferences(tmp_path / "own.csv", split="test")


def test_no_prompt_is_on_both_sides_of_a_split() -> None:
    """Over random data with repeated prompts, and dialogues that go on from one another."""
    draw = random.Random(0)
    for seed in range(20):
        firsts = [f"q{draw.randrange(12)}" for _ in range(60)]
        pairs = [
            Preference(f"{n}", f"{first}{n}", "a", "b", None, (("user", first), ("assistant", f"{n}")))
            for n, first in enumerate(firsts)
        ]
        train, held = split_by_prompt(pairs, 0.25, seed)
        assert not {p.turns[0] for p in train} & {p.turns[0] for p in held}
        assert sorted((*train, *held), key=lambda p: int(p.id)) == pairs
        assert 15 <= len(held) < 30
        assert split_by_prompt(pairs, 0.25, seed) == (train, held)


def test_a_split_that_cannot_be_made_is_refused() -> None:
    """A share of all, and one prompt."""
    pair = Preference("0", "p", "a", "b")
    with pytest.raises(DataError, match=r"the share to hold out is 1\.5"):
        split_by_prompt([pair], 1.5)
    with pytest.raises(DataError, match="two at least"):
        split_by_prompt([pair, pair])


def test_the_report_counts_what_can_be_counted_by_hand() -> None:
    """Words, the longer reply, duplicates, contradictions, prompts on both sides."""
    texts = [("p", "a b c", "d"), ("p", "a b c", "d"), ("p", "d", "a b c"), ("q", "e", "f"), ("r", "g", "g")]
    pairs = [Preference(f"{n}", *text) for n, text in enumerate(texts)]
    report = preference_report(pairs, pairs[3:4])
    assert (report.pairs, report.prompts, report.duplicates, report.contradicted) == (5, 3, 1, 3)
    assert (report.longer_chosen, report.as_long, report.equal, report.shared_prompts) == (0.4, 0.4, 1, 1)
    assert report.word_difference == pytest.approx((2 + 2 - 2 + 0 + 0) / 5)
    assert list(report.to_frame()["value"])[:2] == [5, 3]
    with pytest.raises(DataError, match="no pairs"):
        preference_report([])
