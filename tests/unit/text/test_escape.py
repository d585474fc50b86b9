"""What may reach a terminal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from workbench.text import display_width, printable


def test_escapes_by_hand() -> None:
    assert printable("a b\x1b[31m\n") == r"a b\x1b[31m\n"
    assert printable("\u202eabc\u200b\ud800\\") == r"\u202eabc\u200b\ud800" + "\\\\"
    assert printable("naïve 你 😊") == "naïve 你 😊"


@given(st.text(st.characters(exclude_categories=())))
def test_nothing_unprintable_is_left_and_nothing_is_lost(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    if text.isascii() or text.isprintable():
        assert shown.encode("latin-1", "backslashreplace").decode("unicode_escape") == text


def test_display_width() -> None:
    """East Asian Width (UAX 11): ideographs and emoji take two columns, combining marks none."""
    assert display_width("ab") == 2
    assert display_width("你a") == 3
    assert display_width("e\u0301") == 1
    assert display_width("😊") == 2
