"""``workbench tokenize`` on a tokenizer folder, as the shell sees it."""

from __future__ import annotations

import json
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from tests.unit.text.tokenizers_for_tests import trained
from workbench.cli import main
from workbench.text import TokenizerKind, save_tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Raw bytes with a BOS: id = byte + 3, <s> is 259."""
    return str(save_tokenizer(trained(TokenizerKind.BYTES, "decoder"), tmp_path_factory.mktemp("tok")))


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main(["tokenize", *arguments])
    out, err = capsys.readouterr()
    return int(str(stop.value.code)), out, err


def test_the_table(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "a é", "--model", folder)
    assert code == 0
    assert [line.split() for line in out.splitlines()[2:]] == [
        ["0", "259", "<s>", "0:0", "-"],
        ["1", "100", "a", "a", "0:1", "0", "a"],
        ["2", "35", "Ġ", "1:2", "-"],
        ["3", "198", "Ã", "é", "2:3", "1", "é"],
        ["4", "172", "©", "é", "2:3", "1", "é"],
        ["3", "characters,", "2", "words,", "5", "tokens"],
    ]


def test_json(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "a b", "--model", folder, "--json", "--no-special")
    record = json.loads(out)
    assert code == 0
    assert record["tokens"][2] == {"index": 2, "id": 101, "piece": "b", "start": 2, "end": 3, "word": 1}
    assert record["words"] == [
        {"index": 0, "text": "a", "start": 0, "end": 1, "tokens": [0, 1]},
        {"index": 1, "text": "b", "start": 2, "end": 3, "tokens": [2, 3]},
    ]


def test_nothing_reaches_the_terminal_unescaped(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "a\x1b[31m \u202e\r x", "--model", folder)
    assert code == 0
    assert "\\x1b" in out
    assert all(char.isprintable() or char == "\n" for char in out)


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("", "the text is empty"),
        (" \n", "the text is empty"),
        ("a\0", "NUL character at 1"),
        ("a\udcff", "argument 2 has the lone surrogate \\udcff"),
    ],
)
def test_bad_text_is_one_line(
    folder: str, capsys: pytest.CaptureFixture[str], text: str, fragment: str
) -> None:
    code, out, err = run(capsys, text, "--model", folder)
    assert (code, out) == (2, "")
    assert err.startswith("workbench: ")
    assert err.count("\n") == 1
    assert fragment in err


def test_standard_input(
    folder: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO("né\n".encode())))
    assert "2 characters, 1 word, 4 tokens" in run(capsys, "-", "--model", folder)[1]
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(b"n\xff")))
    code, _, err = run(capsys, "-", "--model", folder)
    assert (code, err.count("\n")) == (2, 1)
    assert "not UTF-8: invalid start byte at byte 1" in err


def test_a_folder_without_a_tokenizer_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "a", "--model", str(tmp_path))
    assert (code, err.count("\n")) == (2, 1)
    assert "no tokenizer in" in err
