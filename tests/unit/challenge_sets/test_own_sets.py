"""Challenge sets in a user's own tables, and published files under other names."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest

import workbench
from challenge_sets import own_set
from challenge_sets.checking import find_set
from tests.helpers import data_dir, run_command
from tests.unit.tiny import tiny_causal
from workbench.errors import ConfigError, DataError
from workbench.evaluate import TaskOptions

PAIRS = [
    ("the cat sits", "the cat sit", "agreement"),
    ("dogs ran", "dogs runs", "agreement"),
    ("a b", "b a", "order"),
]


def stance(texts):
    """Says pos of each text pair whose first text holds no 'not', by rule: right on originals with 'pos' alone."""
    return [[0.0, 1.0] if "not" not in text[0] else [1.0, 0.0] for text in texts]


@pytest.fixture
def function():
    return workbench.wrap(stance, labels=["neg", "pos"])


def test_a_table_of_pairs_gives_the_numbers_of_scoring_each_sentence(tmp_path: Path) -> None:
    """The reference is ``workbench.score`` of both sentences of each pair."""
    model = tiny_causal()
    frame = pd.DataFrame(PAIRS, columns=["better", "worse", "field"])
    file = tmp_path / "mine.tsv"
    frame.to_csv(file, sep="\t", index=False)
    roles = {"good": "better", "bad": "worse"}
    run = workbench.check(model, own_set(file, columns=roles), out=tmp_path, doctor=False)
    rows = run.examples().sort_values("id")
    for (good, bad, _), row in zip(PAIRS, rows.to_dict("records"), strict=True):
        margin = (
            workbench.score(model, "", good).log_probability - workbench.score(model, "", bad).log_probability
        )
        assert row["margin"] == pytest.approx(margin, abs=1e-4)
    assert set(run.results) == {"mine", "mine/agreement", "mine/order"}
    assert run.results["mine/agreement"]["accuracy"].n == 2
    in_memory = workbench.check(model, own_set(frame, "mine", roles), out=tmp_path, doctor=False)
    assert in_memory.results == run.results


def test_usual_names_need_no_binding_and_the_run_is_resumed_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "pairs.csv"
    pd.DataFrame(PAIRS, columns=["x", "y", "z"]).to_csv(file, index=False)
    done = run_command(
        "check",
        "novels-decoder",
        "--set",
        str(file),
        "--columns",
        "x,y",
        "--out",
        str(tmp_path),
        "--no-doctor",
        "--json",
    )
    assert done.returncode == 0, done.stderr
    (run,) = (path for path in tmp_path.iterdir() if path.is_dir())
    again = run_command("check", "--resume", str(run), "--json")
    assert again.returncode == 0, again.stderr
    usual = own_set(pd.DataFrame(PAIRS, columns=["sentence_good", "sentence_bad", "UID"]), "pairs")
    assert [item.fields["item"].paradigm for item in usual.load(None).items] == [
        "agreement",
        "agreement",
        "order",
    ]


@pytest.mark.parametrize(
    ("rows", "consistency", "originals", "edited"),
    [
        # PERSPECTRUM's columns: of three sets the function has both members of the first right
        (
            [
                {"original_claim": "dogs are good", "contrast_claim": "dogs are not good", "perspective": "dogs help",
                 "original_stance_label": "pos", "contrast_stance_label": "neg"},
                {"original_claim": "tea is good", "contrast_claim": "tea is bad", "perspective": "tea helps",
                 "original_stance_label": "pos", "contrast_stance_label": "neg"},
                {"original_claim": "salt is good", "contrast_claim": "salt is bad", "perspective": "salt burns",
                 "original_stance_label": "neg", "contrast_stance_label": "pos"},
            ],
            (1, 3), (2, 3), (2, 3),
        ),
        # MC-TACO's two texts, a member a row: of two questions one is right throughout
        (
            [
                {"group": 0, "sentence1": "he ran . when ?", "sentence2": "at noon", "label": "pos", "original": "yes"},
                {"group": 0, "sentence1": "he did not run . when ?", "sentence2": "at noon", "label": "neg",
                 "original": "no"},
                {"group": 1, "sentence1": "he ate . when ?", "sentence2": "at noon", "label": "pos", "original": "yes"},
                {"group": 1, "sentence1": "he ate . when ?", "sentence2": "never", "label": "neg", "original": "yes"},
                {"group": 1, "sentence1": "he did not eat . when ?", "sentence2": "noon", "label": "neg",
                 "original": "no"},
            ],
            (1, 2), (2, 3), (2, 2),
        ),
        # the attachments of UD's altered trees: a sentence, its edit, and the part of speech of each head
        (
            [
                {"original": "I saw stars with it", "altered": "I did not see it", "original_label": "pos",
                 "altered_label": "neg"},
                {"original": "I did not go", "altered": "I went", "original_label": "neg", "altered_label": "pos"},
            ],
            (2, 2), (2, 2), (2, 2),
        ),
        # edits that keep the label, one column: of two sets the function takes the edit of the second for another label
        (
            [
                {"original": "I saw stars", "altered": "I saw the stars", "label": "pos"},
                {"original": "I did not go", "altered": "I never went", "label": "neg"},
            ],
            (1, 2), (2, 2), (1, 2),
        ),
    ],
)  # fmt: skip
def test_contrast_sets_of_three_forms(tmp_path, function, rows, consistency, originals, edited):
    if "pair" not in rows[0] and "sentence2" not in rows[0] and "perspective" not in rows[0]:
        function = workbench.wrap(lambda texts: stance([(text,) for text in texts]), labels=["neg", "pos"])
    run = workbench.check(function, own_set(pd.DataFrame(rows), "mine"), out=tmp_path)
    found = run.results
    for group, metric, (right, n) in (
        ("mine/Consistency/whole sets", "consistency", consistency),
        ("mine/Accuracy/originals", "accuracy", originals),
        ("mine/Accuracy/edited", "accuracy", edited),
    ):
        assert (found[group][metric].value, found[group][metric].n) == (pytest.approx(right / n), n), group


def test_two_files_go_question_by_question(tmp_path: Path) -> None:
    """MC-TACO's form, beginning as its files do: a question with its candidates, more of them in one file."""
    head = "index\tsentence1\tsentence2\tlabel"
    originals = [
        "he ran . when ?\tat noon\tpos",
        "he ran . when ?\tnever\tpos",
        "he ate . when ?\tat noon\tpos",
    ]
    edits = ["he did not run . when ?\tat noon\tneg", "he did not eat . when ?\tat noon\tneg"]
    for name, rows in (("original", originals), ("changed", edits)):
        lines = [f"{number}\t{row}" for number, row in enumerate(rows)]
        (tmp_path / f"{name}.tsv").write_text("\n".join([head, *lines]) + "\n")
    run = workbench.check(workbench.wrap(stance, labels=["neg", "pos"]), str(tmp_path), out=tmp_path / "runs")
    assert run.results[f"{tmp_path.name}/Consistency/whole sets"]["consistency"].n == 2
    assert run.results[f"{tmp_path.name}/Accuracy/originals"]["accuracy"].n == 3
    assert run.record.recipe["file"] == str(tmp_path)
    (tmp_path / "changed.tsv").write_text(f"{head}\n0\the did not run .\tat noon\tneg\n")
    with pytest.raises(DataError, match=r"original.tsv has 2 examples, .*changed.tsv 1; they go one by one"):
        own_set(tmp_path)
    (tmp_path / "changed.tsv").unlink()
    with pytest.raises(
        DataError, match="needs one table with original in its name, and one with altered or edited"
    ):
        own_set(tmp_path)


def test_either_of_two_files_names_the_set(tmp_path: Path) -> None:
    for name, label in (("original", "pos"), ("changed", "neg")):
        text = f"he {'did not run' if label == 'neg' else 'ran'} . when ?"
        rows = f"0\t{text}\tat noon\t{label}\n1\t{text}\tnever\t{label}\n"
        (tmp_path / f"{name}.tsv").write_text("index\tsentence1\tsentence2\tlabel\n" + rows)
    whole = own_set(tmp_path).load(None)
    for name in ("original", "changed"):
        one = own_set(tmp_path / f"{name}.tsv", "x").load(None)
        assert [item.fields["item"].case for item in one.items] == [
            item.fields["item"].case for item in whole.items
        ]
    run = workbench.check(
        workbench.wrap(stance, labels=["neg", "pos"]), str(tmp_path / "changed.tsv"), out=tmp_path / "runs"
    )
    assert run.results["changed/Consistency/whole sets"]["consistency"].n == 1


def tree(name: str, *words: str) -> str:
    """A sentence of CoNLL-U from form/UPOS/head."""
    rows = [f"# sent_id = {name}"]
    for number, word in enumerate(words, 1):
        form, upos, head = word.split("/")
        rows.append("\t".join([str(number), form, form, upos, "_", "_", head, "dep", "_", "_"]))
    return "\n".join(rows) + "\n\n"


def test_edited_trees_without_ids_are_not_paired_past_one_that_cannot_be_read(tmp_path: Path) -> None:
    words = ("I/PRON/2", "saw/VERB/0", "stars/NOUN/2", "with/ADP/5")
    good, other = tree("same", *words, "planets/NOUN/3"), tree("same", *words, "glasses/NOUN/2")
    bad = tree("same", *words, "glasses/NOUN/9")
    for name, trees in (("original", (good, bad, good)), ("altered", (other, other, other))):
        (tmp_path / f"test.{name}_only.conllu").write_text("".join(trees))
    with pytest.raises(DataError, match="without sent_id go together by their order"):
        own_set(tmp_path / "test.altered_only.conllu", "ud").load(None)


def test_edited_trees_ask_what_a_phrase_attaches_to(tmp_path: Path) -> None:
    """Two sentences whose phrase moves from noun to verb, one whose tree stays, one with a head that is not there."""
    seen = ("I/PRON/2", "saw/VERB/0", "stars/NOUN/2", "with/ADP/5")
    moved = ("We/PRON/2", "demanded/VERB/0", "talks/NOUN/2", "with/ADP/6", "great/ADJ/6")
    before = [
        tree("a", *seen, "planets/NOUN/3"),
        tree("b", *moved, "clerics/NOUN/3"),
        tree("c", *seen, "planets/NOUN/3"),
        tree("d", *seen, "planets/NOUN/3"),
    ]
    after = [
        tree("a***", *seen, "glasses/NOUN/2"),
        tree("b***", *moved, "urgency/NOUN/2"),
        tree("c***", *seen, "moons/NOUN/3"),
        tree("d***", *seen, "glasses/NOUN/9"),
    ]
    (tmp_path / "test.original_only.conllu").write_text("".join(before))
    edits = tmp_path / "test.altered_only.conllu"
    edits.write_text("".join(after))
    found = own_set(edits, "ud")
    assert found.about.endswith("; 2 left out")
    members = {
        (case.examples, case.labels)
        for item in found.load(None).items
        for case in [item.fields["item"].case]
        if item.fields["item"].test.name == "whole sets"
    }
    assert members == {
        ((("I saw stars with planets", "with"), ("I saw stars with glasses", "with")), ("noun", "verb")),
        (
            (
                ("We demanded talks with great clerics", "with"),
                ("We demanded talks with great urgency", "with"),
            ),
            ("noun", "verb"),
        ),
    }
    verbs = workbench.wrap(
        lambda pairs: [[0.0, 1.0] if "glasses" in text else [1.0, 0.0] for text, _ in pairs],
        labels=["noun", "verb"],
    )
    run = workbench.check(verbs, str(edits), out=tmp_path / "runs")
    name = "test.altered_only"
    assert run.results[f"{name}/Consistency/whole sets"]["consistency"].value == 0.5
    assert run.results[f"{name}/Accuracy/originals"]["accuracy"].value == 1.0
    assert run.results[f"{name}/Accuracy/edited"]["accuracy"].value == 0.5
    edits.write_text("".join(before))
    with pytest.raises(DataError, match="no sentence with an adposition whose phrase attaches elsewhere"):
        own_set(edits)


def test_mistakes_name_row_and_column() -> None:
    frame = pd.DataFrame({"good": ["a"], "bad": [" "]})
    with pytest.raises(DataError, match=r"pairs, row 1: bad is empty"):
        own_set(frame, "pairs")
    with pytest.raises(DataError, match=r"no column 'godo'; did you mean 'good'"):
        own_set(frame, "pairs", {"good": "godo"})
    with pytest.raises(
        DataError, match=r"no challenge set: its columns are 'x'; wanted are minimal pairs: good, bad"
    ):
        own_set(pd.DataFrame({"x": ["a"]}), "pairs")
    long = pd.DataFrame({"group": [0, 0, 1], "text": ["a", "b", "c"], "label": ["x", "y", "x"]})
    with pytest.raises(DataError, match=r"row 3: set '1' has one member"):
        own_set(long, "sets")
    with pytest.raises(DataError, match=r"all labels are 'x'"):
        own_set(long.head(2).assign(label="x"), "sets")
    with pytest.raises(DataError, match=r"row 1: original is 'maybe'"):
        own_set(long.head(2).assign(original="maybe"), "sets")
    with pytest.raises(ConfigError, match=r"unknown role 'godo'; did you mean 'good'"):
        find_set("pairs.tsv", columns="godo=x")


@pytest.mark.parametrize(
    ("name", "file", "other"),
    [
        ("crows_pairs", "crows_pairs/crows_pairs_anonymized.csv", "stereotypes.csv"),
        ("wsc", "multiple_choice/winogrande.jsonl", "schemas.jsonl"),
        ("wsc", "superglue/WSC/val.jsonl", "wsc_validation.jsonl"),
        ("contrast_sets", "contrast_sets/boolq_perturbed.json", "boolq.json"),
        ("lm_diagnostics", "lm_diagnostics", "published_{}"),
    ],
)
def test_published_files_are_found_by_their_columns(tmp_path, name, file, other):
    """Renamed, they give the items that they give under their own name."""
    if not (data_dir() / file).exists():
        pytest.skip(f"no {data_dir() / file}")
    sources = sorted((data_dir() / file).glob("*")) if (data_dir() / file).is_dir() else [data_dir() / file]
    place, renamed = tmp_path / "as_published", tmp_path / "renamed"
    for folder in (place, renamed):
        folder.mkdir()
    for source in sources:
        shutil.copy(source, place / source.name)
        shutil.copy(source, renamed / other.format(source.name))
    before, after = (
        find_set(name, TaskOptions(data_dir=str(folder))).load(None).identity for folder in (place, renamed)
    )
    assert (before.sha256, before.rows) == (after.sha256, after.rows)


def test_verbs_say_what_a_file_is(tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("good\tbad\nthe cat sits\tthe cat sit\n")
    shown = run_command("tasks", str(pairs)).stdout
    assert "minimal pairs" in shown
    assert "items: 1" in shown
    assert "columns: good, bad" in shown
    refused = run_command("evaluate", "novels-decoder", "--task", str(pairs))
    assert refused.returncode == 2
    assert f"workbench check MODEL --set {pairs}" in refused.stderr
    questions = tmp_path / "questions.csv"
    questions.write_text("question,answer\nWho?,She\nWhat?,It\n")
    shown = run_command("tasks", str(questions)).stdout
    assert "generation, recognised by the columns" in shown
    assert "items: 2" in shown
    listed = run_command("sets").stdout
    assert "crows_pairs_anonymized.csv" in listed
    assert "sentiment" in listed
