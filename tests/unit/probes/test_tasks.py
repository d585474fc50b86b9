"""Labels of each task on a hand-made treebank, and mistakes in files told with file and line."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from probes.tasks import TASKS, load_task
from workbench.errors import DataError, TaskError

# "The dogs don't sleep, and cats ran." with a multi-word token (don't) and an empty node
TREEBANK = """# sent_id = story-1
# text = The dogs don't sleep, and cats ran.
1\tThe\tthe\tDET\tDT\tDefinite=Def\t2\tdet\t_\t_
2\tdogs\tdog\tNOUN\tNNS\tNumber=Plur\t5\tnsubj\t_\t_
3-4\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
3\tdo\tdo\tAUX\tVBP\tNumber=Plur|Tense=Pres\t5\taux\t_\t_
4\tn't\tnot\tPART\tRB\t_\t5\tadvmod\t_\t_
5\tsleep\tsleep\tVERB\tVB\tVerbForm=Fin\t0\troot\t_\tSpaceAfter=No
6\t,\t,\tPUNCT\t,\t_\t9\tpunct\t_\t_
7\tand\tand\tCCONJ\tCC\t_\t9\tcc\t_\t_
8\tcats\tcat\tNOUN\tNNS\tNumber=Plur\t9\tnsubj:pass\t_\t_
8.1\tfast\tfast\tADV\tRB\t_\t_\t_\t_\t_
9\tran\trun\tVERB\tVBD\tTense=Past\t5\tconj\t_\tSpaceAfter=No
10\t.\t.\tPUNCT\t.\t_\t5\tpunct\t_\t_

"""


@pytest.fixture
def treebank(tmp_path: Path) -> str:
    path = tmp_path / "story.conllu"
    path.write_text(TREEBANK)
    return str(path)


LABELS = {
    "pos": "DET NOUN AUX PART VERB PUNCT CCONJ NOUN VERB PUNCT",
    "xpos": "DT NNS VBP RB VB , CC NNS VBD .",
    "deprel": "det nsubj aux advmod root punct cc nsubj conj punct",
    # heads stand at words 2 5 5 5 - 9 9 9 5 5; -5 is the full stop's
    "head_distance": "+1 +3 +2 +1 +3 +2 +1 -4 -5",
    "tree_depth": "2 1 1 1 0 2 2 2 1 1",
    "number": "Plur Plur Plur",
    "tense": "Pres Past",
}


@pytest.mark.parametrize("task", LABELS)
def test_labels_of_words(treebank: str, task: str) -> None:
    data = load_task(task, treebank)
    assert " ".join(data.labels) == LABELS[task]
    assert data.sentences[0].forms == ("The", "dogs", "do", "n't", "sleep", ",", "and", "cats", "ran", ".")
    assert data.sentences[0].document == "story"
    assert data.sentences[0].name == "story-1"


def test_words_keep_their_places(treebank: str) -> None:
    data = load_task("number", treebank)
    assert [data.text(i) for i in range(len(data))] == ["dogs", "do", "cats"]
    assert [item.type for item in data.items] == ["dogs", "do", "cats"]


def test_arcs_and_constituents(treebank: str) -> None:
    arcs = load_task("arc", treebank)
    assert [(arcs.text(i), arcs.labels[i]) for i in (0, 1)] == [
        ("The | dogs", "det"),
        ("dogs | sleep", "nsubj"),
    ]
    spans = load_task("constituent", treebank)
    real = {spans.text(i) for i, label in enumerate(spans.labels) if label != "none"}
    assert real == {"The dogs", ", and cats ran"}
    counts = Counter(label == "none" for label in spans.labels)
    assert counts[True] == counts[False]


def test_sentences_from_the_grammar() -> None:
    shifted = load_task("bigram_shift", "builtin", limit=300)
    share = Counter(shifted.labels)["swapped"] / len(shifted)
    assert share == pytest.approx(0.5, abs=0.1)
    plain = {" ".join(w.forms) for w in load_task("length", "builtin", limit=300).sentences}
    for words, label in zip(shifted.sentences, shifted.labels, strict=True):
        assert (" ".join(words.forms) in plain) == (label == "original")


def test_a_coordination_is_turned_around(treebank: str, tmp_path: Path) -> None:
    (tmp_path / "many.conllu").write_text(
        TREEBANK.replace("6\t,\t,\tPUNCT\t,\t_\t9", "6\t,\t,\tPUNCT\t,\t_\t5") * 20
    )
    data = load_task("coordination_inversion", tmp_path / "many.conllu")
    found = {label: " ".join(w.forms) for w, label in zip(data.sentences, data.labels, strict=True)}
    assert found["original"] == "The dogs do n't sleep , and cats ran ."
    assert found["inverted"] == "cats ran and The dogs do n't sleep , ."


def test_root_tense_and_argument_numbers(treebank: str) -> None:
    assert load_task("sentence_tense", treebank).labels == ("Pres",)
    assert load_task("subject_number", treebank).labels == ("Plur",)


@pytest.mark.parametrize(
    "name", sorted(n for n in TASKS.names() if TASKS.get(n).build and n not in ("xpos",))
)
def test_every_task_of_trees_works_with_nothing_downloaded(name: str) -> None:
    data = load_task(name, "builtin", limit=400)
    assert len(set(data.labels)) > 1
    again = load_task(name, "builtin", limit=400)
    assert again.identity.sha256 == data.identity.sha256
    assert data.about


def write(tmp_path: Path, name: str, text: str) -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_entities_with_and_without_numbers(tmp_path: Path) -> None:
    numbered = write(
        tmp_path, "a.iob2", "# text = in Rome\n1\tin\tO\t-\t-\n2\tRome\tB-LOC\t-\tx\n\n1\tyes\tO\t-\t-\n"
    )
    plain = write(tmp_path, "b.conll", "#tag\tO\nRome\tB-LOC\n\t\n1\tO\n")
    assert load_task("ner", numbered).labels == ("O", "B-LOC", "O")
    data = load_task("ner", plain)
    assert [s.forms for s in data.sentences] == [("#tag", "Rome"), ("1",)]


def test_word_senses(tmp_path: Path) -> None:
    line = (
        '{"word": "bank", "sentence1": "The bank, closed.", "sentence2": "A river bank.", "label": false, '
        '"start1": 4, "end1": 8, "start2": 8, "end2": 12}\n'
    )
    data = load_task("wic", write(tmp_path, "wic.jsonl", line))
    assert data.text(0) == "bank | bank"
    assert data.labels == ("false",)
    assert data.sentences[0].forms == ("The", "bank", ",", "closed", ".")
    assert data.sentences[0].space_after == (
        True,
        False,
        True,
        False,
        True,
    )  # the last word is followed by nothing


def test_edges(tmp_path: Path) -> None:
    line = '{"text": "Ann said she slept", "targets": [{"span1": [0, 1], "span2": [2, 3], "label": "1"}]}\n'
    data = load_task("edge", write(tmp_path, "coref.jsonl", line))
    assert data.text(0) == "Ann | she"
    assert data.items[0].label == "1"


def test_tables(tmp_path: Path) -> None:
    texts = load_task("table", write(tmp_path, "t.csv", 'text,label\n"good, really",1\nbad,0\n'))
    assert texts.labels == ("1", "0")
    assert texts.text(0) == "good, really"
    words = load_task("table", write(tmp_path, "w.csv", "words,labels\nthe cat,D N\n"))
    assert words.labels == ("D", "N")


BAD = [
    ("pos", "x.conllu", "1\tcat\tcat\n\n", "line 1: 3 columns"),
    ("pos", "x.conllu", "# only comments\n", "holds no sentences"),
    ("tree_depth", "x.conllu", "1\ta\ta\tX\t_\t_\t2\tdep\t_\t_\n2\tb\tb\tX\t_\t_\t1\tdep\t_\t_\n\n", "form a cycle"),
    ("ner", "x.iob2", "Rome\tB-LOC\nis\n", "line 2 .sentence 1.: 'is' is no word with a tag"),
    ("ner", "x.iob2", "Rome\tLOC\n", "line 1: tag 'LOC' is not IOB2"),
    ("table", "x.csv", "a,b\n1,2\n", "needed are 'text' and 'label'"),
    ("table", "x.csv", "text,label\nonly\n", "line 2 has 1 cells; expected 2 .text, label."),
    ("table", "x.csv", "words,labels\na b c,X Y\n", "line 2: 3 words but 2 labels"),
    ("table", "x.csv", "text,word,label\na b,2,X\n", "word '2' is not a position from 0 to 1"),
    ("wic", "x.jsonl", '{"word": "a"}\n', "line 1: no field 'label'"),
    ("edge", "x.jsonl", '{"text": "a b", "targets": [{"span1": [1, 3], "label": "x"}]}\n', "the text's 2 words"),
    ("edge", "x.jsonl", "{broken\n", "line 1 is not valid JSON"),
]  # fmt: skip


@pytest.mark.parametrize(("task", "name", "text", "message"), BAD, ids=[m for *_, m in BAD])
def test_mistakes_name_file_and_line(tmp_path: Path, task: str, name: str, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        load_task(task, write(tmp_path, name, text))
    assert "\n" not in str(caught.value)


def test_unknown_tasks_and_missing_files(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="did you mean 'pos'"):
        load_task("poss")
    with pytest.raises(TaskError, match="give --data FILE"):
        load_task("wic")
    with pytest.raises(DataError, match="no file"):
        load_task("wic", tmp_path / "none.jsonl")
    with pytest.raises(DataError, match="is a folder"):
        load_task("pos", tmp_path)
    with pytest.raises(DataError, match="limit is 0"):
        load_task("pos", "builtin", limit=0)
