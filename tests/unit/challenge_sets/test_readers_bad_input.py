"""Every mistake in a file is told with the file and the line."""

import gzip
import json
import pickle

import pytest

from challenge_sets.readers import (
    agreement,
    blimp,
    checklist,
    contrast_sets,
    crows_pairs,
    hans,
    lama,
    winograd,
)
from workbench.errors import DataError

HANS = "gold_label\tsentence1\tsentence2\tpairID\theuristic\tsubcase\ttemplate"
GOOD_HANS = "entailment\ta\tb\tex0\tsubsequence\ts\tt"
TABLE = "UID\tpair_id\tsentence_good\tsentence_bad"
SUITE = {"capability": "c", "test": "t", "type": "MFT", "labels": 1, "cases": ["x"]}


def _raises(function, path, content, message):
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    with pytest.raises(DataError, match=message):
        list(function(path))


@pytest.mark.parametrize(
    ("reader", "content", "message"),
    [
        (blimp.read, f"{TABLE}\na\t0\tb\n", "line 2 has 3 cells; expected 4"),
        (
            blimp.read,
            "UID\tpair\n",
            "line 1: no column 'pair_id', 'sentence_good', 'sentence_bad'; it has 'UID', 'pair'",
        ),
        (blimp.read, f"{TABLE}\na\t0\tb\tc\n\n\na\t1\td\n", "line 5 has 3 cells"),  # blank lines count
        (blimp.read, f"{TABLE}\na\t0\tb\t".encode() + b"\xff\n", r"line 2, byte 7: 0xff is not valid UTF-8"),
        (
            hans.read,
            f"{HANS}\nentails\ta\tb\tex0\tsubsequence\ts\tt\n",
            "line 2: gold_label must be 'entailment' or",
        ),
        (
            hans.read,
            f"{HANS}\n{GOOD_HANS}\n{GOOD_HANS.replace('subsequence', 'overlap')}\n",
            "line 3: heuristic must be",
        ),
    ],
)
def test_tables(tmp_path, reader, content, message):
    _raises(reader, tmp_path / "file.tsv", content, message)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            'x,sent_more,sent_less,stereo_antistereo,bias_type\n0,"a\nb",c,stereo,age\n1,a,b,neither,age\n',
            "line 4: stereo_antistereo",
        ),
        ("x,sent_more,sent_less,stereo_antistereo,bias_type\n0,a,b\n", "line 2 has 3 cells; expected 5"),
        ('x,sent_more,sent_less,stereo_antistereo,bias_type\n0,"a,b\n', "line 2 is not valid CSV"),
    ],
)
def test_csv(tmp_path, content, message):
    _raises(crows_pairs.read, tmp_path / "c.csv", content, message)


@pytest.mark.parametrize(
    ("gold", "message"),
    [
        ("1\tis\tare\t0\n", "must go line by line"),
        ("1\tis\tare\t0\n9\tis\tare\t0\n", "line 2: position 9 is outside the sentence of 3 words"),
        ("1\tis\tare\t0\n2\tis\tare\t0\n", "line 2: word 2 of the sentence is 'old', not 'is'"),
        ("1\tis\tare\t0\none\tis\tare\t0\n", "line 2: position must be an integer, is 'one'"),
    ],
)
def test_gold_beside_text(tmp_path, gold, message):
    (tmp_path / "s.text").write_text("it is new <eos>\nit is old <eos>\n", encoding="utf-8")
    _raises(agreement.read_gold_text, tmp_path / "s.gold", gold, message)


@pytest.mark.parametrize(
    ("reader", "record", "message"),
    [
        (blimp.read, {"UID": "a", "sentence_good": "b"}, "line 1: no field 'sentence_bad'"),
        (checklist.read, SUITE | {"type": "XYZ"}, "line 1: type must be 'MFT' or 'INV' or 'DIR', is 'XYZ'"),
        (checklist.read, SUITE | {"labels": [1, 2]}, "line 1: 2 labels for 1 cases"),
        (checklist.read, SUITE | {"cases": []}, "line 1: cases must be a list with at least one case"),
        (checklist.read, SUITE | {"cases": [3]}, "line 1, case 0: an example must be a text"),
        (
            lama.read,
            {"sub_label": "a", "obj_label": "b", "masked_sentences": ["none"]},
            r"line 1: no \[MASK\] in 'none'",
        ),
        (
            lama.read,
            {"sub_label": "a", "obj_label": "b"},
            "line 1: masked_sentences must be a list of strings",
        ),
        (winograd.read_wsc, {"text": "a b"}, "line 1: no object 'target'"),
        (
            winograd.read_partial,
            {"context_options": ["a", "b"], "continuation": "c", "gold": 2},
            "gold must be from 0 to 1",
        ),
        (
            winograd.read_partial,
            {"context_options": ["a", "a"], "continuation": "c", "gold": 0},
            "members of the pair are equal",
        ),
    ],
)
def test_json_lines(tmp_path, reader, record, message):
    _raises(reader, tmp_path / "file.jsonl", json.dumps(record) + "\n", message)


def test_contrast_sets_that_do_not_contrast(tmp_path):
    for kind in ("original", "contrast"):
        (tmp_path / f"imdb_test_{kind}.tsv").write_text("Sentiment\tText\nPositive\ta\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"imdb_test_contrast.tsv, line 2: the label is that of the original"):
        list(contrast_sets.read_imdb(tmp_path))
    _raises(contrast_sets.read_boolq, tmp_path / "b.json", '{"data":\n[,]}', "line 2 is not valid JSON")
    _raises(contrast_sets.read_boolq, tmp_path / "b.json", "[]", "must be an object with a list 'data'")


@pytest.mark.parametrize("name", ["suite.pkl", "suite.tar.gz", "suite.jsonl"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_pickled_suite_is_refused_whatever_its_name(tmp_path, name, pack):
    _raises(
        checklist.read,
        tmp_path / name,
        pack(pickle.dumps({"tests": {}})),
        "a pickle can run any code.*write for each test one JSON line",
    )


def test_missing_files_say_what_is_there(tmp_path):
    (tmp_path / "other.txt").write_text("x", encoding="utf-8")
    with pytest.raises(DataError, match=r"no heuristics_evaluation_set.txt in .*; it holds other.txt"):
        list(hans.read(tmp_path))
    with pytest.raises(DataError, match="no BLiMP files in"):
        blimp.read(tmp_path)
    with pytest.raises(DataError, match="cannot read"):
        list(blimp.read(tmp_path / "absent.jsonl"))
