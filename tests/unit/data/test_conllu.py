"""CoNLL-U files: words, spacing, multi-word tokens, empty nodes, and what is wrong with a broken line."""

from __future__ import annotations

import pytest

from tests.helpers import data_dir, needs_data
from workbench.data.conllu import read_conllu
from workbench.errors import DataError

FILE = """\
# sent_id = one
# text = She doesn't sing.
1\tShe\tshe\tPRON\tPRP\t_\t4\tnsubj\t_\t_
2-3\tdoesn't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdoes\tdo\tAUX\tVBZ\t_\t4\taux\t_\t_
3\tn't\tnot\tPART\tRB\t_\t4\tadvmod\t_\t_
4\tsing\tsing\tVERB\tVB\t_\t0\troot\t_\tSpaceAfter=No
4.1\tsongs\tsong\tNOUN\t_\t_\t_\t_\t4:obj\t_
5\t.\t.\tPUNCT\t.\t_\t4\tpunct\t_\t_

# sent_id = two
1\tGo\tgo\tVERB\tVB\tMood=Imp\t0\troot\t_\t_
"""


def test_reads_words_trees_and_spacing(tmp_path):
    path = tmp_path / "a.conllu"
    path.write_text(FILE, encoding="utf-8")
    one, two = read_conllu(path)
    assert (one.sent_id, one.text) == ("one", "She doesn't sing.")
    assert one.forms == ["She", "does", "n't", "sing", "."]
    assert [w.head for w in one.words] == [3, 3, 3, None, 3]
    assert [w.relation for w in one.words] == ["nsubj", "aux", "advmod", "root", "punct"]
    # "does" and "n't" are written together, and so are "sing" and the full stop.
    assert one.space_after == [True, False, True, False, True]
    assert (two.words[0].features, two.text) == ("Mood=Imp", "")
    assert len(read_conllu(path, limit=1)) == 1


def test_windows_line_ends_and_byte_order_mark(tmp_path):
    path = tmp_path / "a.conllu"
    path.write_bytes(b"\xef\xbb\xbf" + FILE.replace("\n", "\r\n").encode())
    assert read_conllu(path)[0].forms[-1] == "."


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1\tGo\tgo\n", "line 1: 3 columns"),
        ("# text = x\n1\tGo\tgo\tVERB\tVB\t_\t7\troot\t_\t_\n", "line 2: head '7' is no word"),
        ("# only a comment\n", "holds no sentences"),
    ],
)
def test_broken_files(tmp_path, content, message):
    path = tmp_path / "a.conllu"
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        read_conllu(path)
    with pytest.raises(DataError, match="cannot read"):
        read_conllu(tmp_path / "none.conllu")


@pytest.mark.data
@needs_data
def test_ewt_dev_has_its_official_size():
    """2,001 sentences; the spacing gives back the text of the comments but for doubled spaces."""
    sentences = read_conllu(data_dir() / "ud" / "en_ewt-ud-dev.conllu")
    assert len(sentences) == 2001
    joined = ["".join(w.form + " " * w.space_after for w in s.words).strip() for s in sentences]
    same = sum(
        " ".join(s.text.split()) == " ".join(j.split()) for s, j in zip(sentences, joined, strict=True)
    )
    assert same / len(sentences) > 0.99
