"""WikiText's articles are the file's own characters."""

from __future__ import annotations

import pytest

from workbench.data.wikitext import WIKITEXT2

ARTICLES = [
    " \n = First = \n \n A text , of one line .\n",
    " = Second = \n \n Another .\n = = Part = = \n The end .",
]


@pytest.mark.parametrize("end", ["", "\n", " \n \n"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_joined_again_the_articles_are_the_file(tmp_path, end, line_end):
    """The expected text is what was written, a missing final newline included."""
    text = "".join(ARTICLES) + end
    text = text.replace("line .\n", "line .\n \n").replace("\n", line_end)  # a blank line before a heading
    (tmp_path / "wiki.test.raw").write_bytes(text.encode())
    rows = list(WIKITEXT2.read(tmp_path, "test"))
    assert len(rows) == 2
    assert "".join(row.text for row in rows) == text
    assert sum(row.bytes for row in rows) == len(text.encode())
