"""Rules induced from texts, with a judge made by hand; their flips and coverage, counted by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from challenge_sets.checking import check_predictions
from challenge_sets.paraphrase_judge import Judge
from challenge_sets.rewrites import Replacement
from challenge_sets.rule_induction import InducedRule, induced_rules, rewritten
from challenge_sets.suite import MFT, Suite, TestCase, export_texts, load_suites, suite_set
from challenge_sets.tables import rules_table
from workbench.cli._tables import rules_text
from workbench.cli.check import summary
from workbench.errors import DataError, UnknownName

THE = [f"the film {verb} {place}." for verb in ("ran", "stopped", "began") for place in ("here", "there")]
A = [f"a film {verb} in town." for verb in ("ran", "stopped", "began", "ended", "slept")]
FILM = [("film", "movie"), ("film", "idea")]


def only(*accepted: str) -> Judge:
    """Accepts what ends in one of these; with the context in front of it."""
    return lambda edits: [any(e.changed[: e.start + len(e.new)].endswith(a) for a in accepted) for e in edits]


def every(edits: Sequence[Replacement]) -> list[bool]:
    return [True] * len(edits)


def named(found: list[InducedRule]) -> dict[str, tuple[int, int]]:
    return {one.rule.name: (len(one.rewrites), one.matched) for one in found}


def test_a_rule_is_kept_where_its_rewrites_are_accepted() -> None:
    """11 texts hold *film*; nothing that *idea* makes is accepted."""
    found = induced_rules([*THE, *A, THE[0]], only("movie"), swaps=FILM, phrases=())
    assert named(found) == {"film -> movie": (11, 11)}
    assert found[0].rewrites["a film ran in town."] == "a movie ran in town."


def test_a_rule_that_holds_in_one_context_has_that_context() -> None:
    """Accepted after *the* only: 6 of 11 rewrites of the bare rule are under nine tenths, 6 of 6 with its neighbour."""
    found = induced_rules([*THE, *A], only("the movie"), swaps=FILM, phrases=())
    assert named(found) == {"the film -> the movie": (6, 6)}


@pytest.mark.parametrize(
    ("refused", "kept"),
    [
        (1, {"film -> movie": (10, 11)}),
        (3, {}),  # 6 of 6 behind *the* and 2 of 5 behind *a*: so by chance in C(5, 2) / C(11, 8) = 0.061
        (4, {"the film -> the movie": (6, 6)}),  # C(5, 1) / C(11, 7) = 0.015, twice for two neighbours tried
    ],
)
def test_a_context_is_kept_where_it_matters(refused: int, kept: dict[str, tuple[int, int]]) -> None:
    found = induced_rules(
        [*THE, *A], lambda edits: [e.text not in A[:refused] for e in edits], swaps=FILM[:1], phrases=()
    )
    assert named(found) == kept


def test_nine_tenths_must_be_accepted() -> None:
    """Of 20 rewrites 18 are enough, 17 are not."""
    texts = [f"film {number}." for number in range(20)]
    for refused, kept in ((2, {"film -> movie": (18, 20)}), (3, {})):
        judge = lambda edits, n=refused: [int(e.text[5:-1]) >= n for e in edits]  # noqa: E731
        assert named(induced_rules(texts, judge, swaps=FILM[:1], phrases=())) == kept


def test_rules_of_few_texts_are_left_out() -> None:
    assert not induced_rules(A[:4], every, swaps=FILM, phrases=())
    assert named(induced_rules(A[:4], every, swaps=FILM[:1], phrases=(), least=4)) == {
        "film -> movie": (4, 4)
    }


@pytest.mark.parametrize("swap", [("great", "terrible"), ("it", "i"), ("was", "did"), ("not", "so")])
def test_antonyms_and_function_words_are_refused_whatever_the_judge_says(swap: tuple[str, str]) -> None:
    texts = [f"here {swap[0]} {end}." for end in ("one", "two", "three", "four", "five")]
    assert induced_rules(texts, every, swaps=[swap], phrases=()) == []


def test_synonyms_and_phrases_are_the_default() -> None:
    texts = [f"the film was not {end}." for end in ("good", "bad", "long", "short", "old")]
    assert named(induced_rules(texts, every)) == {"film -> movie": (5, 5), "was not -> wasn't": (5, 5)}


def suite(texts: Sequence[str]) -> Suite:
    cases = tuple(TestCase(str(i), f"t{i}", ((text,),), (None,)) for i, text in enumerate(texts))
    return Suite(name="s", labels={"good": (), "bad": ()}, tests=(MFT("m", "c", cases),))


def test_flips_and_coverage_of_a_planted_rule(tmp_path: Path) -> None:
    """A classifier that finds *film* good, but not after *a*: *film -> movie* flips the 6 of 11 texts with *the film*.

    *town -> city* is in 5 texts, all without a flip. The flip rate is 6/11.
    """
    judge = only("movie", "towns", "wasn't")
    challenge = suite_set((rewritten(suite([*THE, *A, "it was not so."]), judge),))
    export_texts(challenge, tmp_path / "texts.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "texts.jsonl").read_text().splitlines()]
    labels = [{"id": row["id"], "label": "good" if "the film" in row["texts"][0] else "bad"} for row in rows]
    (tmp_path / "answers.jsonl").write_text("".join(json.dumps(label) + "\n" for label in labels))
    run = check_predictions(tmp_path / "answers.jsonl", challenge, out=tmp_path / "runs")
    table = rules_table(run)
    assert table[["rule", "texts", "flips", "new_flips"]].to_numpy().tolist() == [["film -> movie", 11, 6, 6]]
    assert table["flip_rate"][0] == pytest.approx(6 / 11)
    assert table["low"][0] < 6 / 11 < table["high"][0]
    assert (table["before"][0], table["after"][0]) == (THE[0], THE[0].replace("film", "movie"))
    assert table["labels"][0] == "good -> bad"
    assert "film -> movie     11      6      0.545" in rules_text(table)
    assert summary(run)["rules"][0]["flips"] == 6


def test_a_suite_becomes_an_invariance_test_a_rule() -> None:
    found = rewritten(suite(A), every)
    (test,) = (test for test in found.tests if test.name == "film -> movie")
    assert (found.name, str(test.kind), len(test.cases)) == ("rewrites_s", "INV", 5)
    assert test.cases[0].examples == ((A[0],), ("a movie ran in town.",))
    assert test.cases[0].template == "t0"


@pytest.mark.parametrize("texts", [["It sat."], A[:4], [""]])
def test_no_rule_is_one_line(texts: list[str]) -> None:
    with pytest.raises(DataError, match=rf"^no rewrite rule holds in 5 of the {len(texts)} texts of s; "):
        rewritten(suite(texts), every)


@pytest.mark.weights
def test_a_task_with_labels_is_rewritten(tmp_path: Path) -> None:
    """Six sentences of a folder in GLUE's layout, with the models of the package."""
    rows = [f"this film is {word} .\t1\n" for word in ("good", "bad", "long", "short", "old", "new")]
    (tmp_path / "dev.tsv").write_text("sentence\tlabel\n" + "".join(rows))
    (found,) = load_suites("rewrites:glue/sst2", tmp_path)
    assert {test.name: len(test.cases) for test in found.tests} == {"film -> movie": 6}
    assert found.labels == {"negative": ("0", "neg"), "positive": ("1", "pos")}
    assert found.prompt is not None
    assert found.prompt.filled(("so",)).startswith("so\nQuestion: Is this sentence positive or negative?")


def test_what_cannot_be_rewritten_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match=r"^unknown suite or task 'sst2'; did you mean 'glue/sst2'"):
        load_suites("rewrites:sst2")
    (tmp_path / "dev.tsv").write_text("sentence\tlabel\n")
    with pytest.raises(DataError, match="has no rows for glue/sst2"):
        load_suites("rewrites:glue/sst2", tmp_path)
