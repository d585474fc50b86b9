"""Contrast sets on a whole folder: a classifier of one task is asked what it can answer, long texts are truncated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from challenge_sets.checking import check
from challenge_sets.tables import suite_table
from tests.model_folders import SIZES, framed_tokenizer
from tests.unit.tiny import loaded, tiny_causal
from workbench.errors import TaskError
from workbench.models import Kind

HEADS = {"num_hidden_layers": 1, "num_attention_heads": 4, "hidden_size": 32, "intermediate_size": 64}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two reviews with their edits, one of them longer than the models of these tests read, and a question."""
    place = tmp_path / "sets"
    place.mkdir()
    rows = {"original": ("Positive\tthe cat sat", "Negative\t" + "dogs ran . " * 40), "contrast": ()}
    rows["contrast"] = ("Negative\ta cat sat", "Positive\t" + "cats ran . " * 40)
    for name, lines in rows.items():
        (place / f"imdb_test_{name}.tsv").write_text("\n".join(["Sentiment\tText", *lines]) + "\n")
    question = {
        "paragraph": "the key is on the table",
        "question": "is the key on the table",
        "answer": "TRUE",
    }
    changed = [{"perturb_id": "0", "perturbed_q": "is the cat on the table", "answer": "FALSE"}]
    entry = {**question, "title": "t", "perturbed_questions": changed}
    (place / "boolq_perturbed.json").write_text(json.dumps({"data": [entry]}))
    return place


def classifier(*labels: str):
    torch.manual_seed(0)
    config = BertConfig(**SIZES, **HEADS, id2label=dict(enumerate(labels)), initializer_range=0.3)
    return loaded(BertForSequenceClassification(config), Kind.CLASSIFIER, framed_tokenizer())


def run_of(model, folder: Path):
    return check(model, "contrast_sets", data_dir=folder, out=folder.parent, doctor=False)


def test_a_classifier_of_one_task_answers_that_one(folder):
    run = run_of(classifier("negative", "positive"), folder)
    table = suite_table(run)
    by_suite = table.groupby("suite")["applied"].sum()
    assert by_suite.to_dict() == {"contrast_boolq": 0, "contrast_imdb": 2 + 2 + 2}
    assert all(
        "needs the label 'no'" in reason for reason in table.loc[table["suite"] == "contrast_boolq", "reason"]
    )
    assert [name for name in run.results if "boolq" in name] == []
    assert run.notes["truncated"] == 3  # the long set of two, the long original, its edit


def test_a_classifier_of_no_task_is_refused(folder):
    with pytest.raises(TaskError, match="needs the label"):
        run_of(classifier("sad", "glad"), folder)


def test_a_language_model_reads_the_end_of_what_does_not_fit(folder):
    run = run_of(tiny_causal(), folder)
    assert run.notes["truncated"] == 3
    assert suite_table(run)["applied"].tolist() == [2, 2, 2, 1, 1, 1]
