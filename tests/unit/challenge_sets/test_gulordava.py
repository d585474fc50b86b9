"""Gulordava et al. (2018) in the published formats, scored at the target as in the papers, clustered by original."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import BertForMaskedLM

from challenge_sets.checking import check
from challenge_sets.readers import agreement, gulordava
from tests.unit.evaluate.test_inference import bert
from tests.unit.tiny import tiny_causal
from workbench.errors import DataError
from workbench.models import Kind
from workbench.statistics import clustered_wilson

# Two originals, one of them with a nonsense sentence; "sat" stands where the forms go.
SENTENCES = [
    ("L!NOUN_VERB_VERB!Number=Plur!Number=Sing", 0, 0, 2, "is", "are", "the key sat on the table . <eos>"),
    ("L!NOUN_VERB_VERB!Number=Plur!Number=Sing", 0, 1, 2, "are", "is", "a cats sat on the mat . <eos>"),
    ("R!VERB_NOUN_CCONJ_VERB!Number=Sing!Number=Plur", 3, 0, 4, "is", "are", "the cat ran and sat . <eos>"),
]


def gold_files(folder: Path) -> Path:
    gold = "".join(
        f"{p}\t{c}\t{s}\t{n}\tVERB\tNumber=Sing\t{good}\t{bad}\tbe\t1\tNOUN\tthe words of the original\n"
        for p, c, s, n, good, bad, _ in SENTENCES
    )
    (folder / "generated.gold").write_text(gold)
    (folder / "generated.text").write_text("".join(f"{sentence}\n" for *_, sentence in SENTENCES))
    return folder


def tab_file(folder: Path) -> Path:
    names = "pattern\tconstr_id\tsent_id\tcorrect_number\tform\tclass\ttype\tprefix\tn_attr\tpunct\tfreq\tlen_context"
    lines = [f"{names}\tlen_prefix\tsent"]
    for p, c, s, n, good, bad, sentence in SENTENCES:
        pattern = "__".join(p.split("!")[:2])
        for form, kind in ((good, "correct"), (bad, "wrong")):
            quoted = f'"{sentence}"' if s else sentence
            lines.append(
                f"{pattern}\t{c}\t{s}\tsing\t{form}\t{kind}\tgenerated\tx\t0\tFalse\t1\t1\t{n}\t{quoted}"
            )
    (folder / "generated.tab").write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.parametrize("write", [gold_files, tab_file])
def test_both_published_formats_are_read(tmp_path, write):
    items = list(gulordava.read(write(tmp_path)))
    first, second, third = items
    assert (first.before, first.after) == ("the key", "on the table .")
    assert (second.correct, second.wrong, second.is_original) == ("are", "is", False)
    assert first.original == second.original != third.original
    assert third.before == "the cat ran and"


def test_the_forms_need_not_stand_in_the_text_and_other_files_are_refused(tmp_path):
    gold_files(tmp_path)
    with pytest.raises(DataError, match="use --set gulordava"):
        list(agreement.read_gold_text(tmp_path))
    (tmp_path / "generated.text").write_text("the key sat . <eos>\n")
    with pytest.raises(DataError, match="1 lines"):
        list(gulordava.read(tmp_path))
    with pytest.raises(DataError, match=r"no generated\.tab"):
        list(gulordava.read(tmp_path.parent))


def scored(model, folder):
    run = check(model, "gulordava", data_dir=gold_files(folder), out=folder, doctor=False)
    return run, run.examples().set_index("id")


def test_causal_models_score_the_form_after_its_prefix(tmp_path):
    model = tiny_causal()
    run, rows = scored(model, tmp_path)
    ids = model.tokenizer("the key", return_tensors="pt").input_ids
    with torch.inference_mode():
        plain = model.model(input_ids=ids).logits[0, -1].log_softmax(-1)
    is_id, are_id = model.tokenizer.convert_tokens_to_ids(["is", "are"])
    row = rows.loc["L_NOUN_VERB_VERB-0/0"]
    assert row["good_score"] == pytest.approx(float(plain[is_id]), abs=1e-4)
    assert row["bad_score"] == pytest.approx(float(plain[are_id]), abs=1e-4)
    assert "given the words before it" in run.notes["policy"]
    hits, clusters = rows["correct"].tolist(), rows["cluster"].tolist()
    expected = clustered_wilson(hits, clusters)
    assert run.results["gulordava"]["accuracy"].low == pytest.approx(expected.low)
    assert set(run.results) == {
        "gulordava",
        "gulordava/original",
        "gulordava/nonce",
        "gulordava/L_NOUN_VERB_VERB",
        "gulordava/R_VERB_NOUN_CCONJ_VERB",
    }


def test_masked_models_score_the_form_in_place_of_the_mask(tmp_path):
    model = bert(BertForMaskedLM, Kind.MASKED)
    _, rows = scored(model, tmp_path)
    mask = model.tokenizer.mask_token
    ids = model.tokenizer(f"the key {mask} on the table .", return_tensors="pt").input_ids
    with torch.inference_mode():
        plain = model.model(input_ids=ids).logits[0, 3].log_softmax(-1)  # <s> the key [mask]
    row = rows.loc["L_NOUN_VERB_VERB-0/0"]
    for column, form in (("good_score", "is"), ("bad_score", "are")):
        assert row[column] == pytest.approx(
            float(plain[model.tokenizer.convert_tokens_to_ids(form)]), abs=1e-4
        )
