from __future__ import annotations

import pytest

from workbench.data.files import find_file, read_jsonl, read_lines
from workbench.errors import DataError


def _write(tmp_path, content: bytes):
    path = tmp_path / "data.jsonl"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    "content", [b"one\ntwo\n", b"one\r\ntwo\r\n", b"one\ntwo", b"\xef\xbb\xbfone\ntwo\n"]
)
def test_line_ends_and_byte_order_mark_are_not_text(tmp_path, content):
    assert read_lines(_write(tmp_path, content)) == ["one", "two"]


def test_other_unicode_separators_and_no_break_spaces_stay(tmp_path):
    text = "a\u2028b\x0bc\x0cd\u00a0e\x85f"
    assert read_lines(_write(tmp_path, text.encode() + b"\n")) == [text]


@pytest.mark.parametrize("content", [b"", b"\n", b"\r\n", b"\xef\xbb\xbf", b"  \n"])
def test_an_empty_file_is_refused(tmp_path, content):
    with pytest.raises(DataError, match=r"data\.jsonl is empty"):
        read_lines(_write(tmp_path, content))


def test_an_empty_line_is_named(tmp_path):
    with pytest.raises(DataError, match=r"data\.jsonl, line 2 is empty"):
        read_lines(_write(tmp_path, b"one\n\r\nthree\n"))


def test_invalid_utf8_is_told_by_line_and_byte(tmp_path):
    # "caf\xe9" is Latin-1: the bad byte is the fourth of line 2.
    with pytest.raises(DataError, match=r"line 2, byte 4: 0xe9 is not valid UTF-8"):
        read_lines(_write(tmp_path, b"one\ncaf\xe9\n"))


def test_utf16_is_told(tmp_path):
    with pytest.raises(DataError, match=r"line 1, byte 1: 0xff"):
        read_lines(_write(tmp_path, "one".encode("utf-16")))


def test_broken_line_57_is_named(tmp_path):
    lines = [b'{"text": "good one"}'] * 60
    lines[56] = b'{"text": "no end'
    with pytest.raises(DataError, match=r"data\.jsonl, line 57 is not valid JSON: .* at character 10"):
        list(read_jsonl(_write(tmp_path, b"\n".join(lines))))


@pytest.mark.parametrize("line", [b"[1, 2]", b'"text"', b"3", b"null"])
def test_anything_but_an_object_is_refused(tmp_path, line):
    with pytest.raises(DataError, match="line 1 must be a JSON object"):
        list(read_jsonl(_write(tmp_path, line)))


@pytest.mark.parametrize("line", [b"[" * 200_000, b'{"n": ' + b"9" * 5000 + b"}"])
def test_json_made_to_exhaust_the_reader_is_one_clear_line(tmp_path, line):
    with pytest.raises(DataError, match=r"line 1 (cannot be read as|is not valid) JSON"):
        list(read_jsonl(_write(tmp_path, line)))


def test_missing_file_names_what_was_looked_for_and_what_is_there(tmp_path):
    (tmp_path / "other.csv").touch()
    with pytest.raises(DataError, match=r"no a\.jsonl or b\.txt in .*; it holds other\.csv"):
        find_file(tmp_path, "a.jsonl", "b.txt")


def test_missing_folder_and_file_in_place_of_a_folder(tmp_path):
    with pytest.raises(DataError, match=r"does not exist \(looked for a\.jsonl\)"):
        find_file(tmp_path / "nowhere", "a.jsonl")
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="is a file; give the folder it is in"):
        find_file(tmp_path / "file", "a.jsonl")


def test_a_folder_in_place_of_the_file_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"cannot read .*: Is a directory"):
        read_lines(tmp_path)
