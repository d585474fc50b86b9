"""How a token is shown: readable, never executed, and never invisible."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from workbench.errors import ConfigError

__all__ = ["MAX_TOKENS", "check_length", "shown_tokens", "sink_positions"]

MAX_TOKENS = 2048
"""Most tokens that one view takes along either axis."""

SINK_TOKENS = frozenset(("[CLS]", "[SEP]", "<s>", "</s>", "<cls>", "<sep>", "<bos>", "<eos>")) | frozenset(
    ("<|endoftext|>", "<|begin_of_text|>", "<|im_start|>", "<|im_end|>")
)
_REORDERING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def check_length(count: int, what: str) -> None:
    """Refuse more than :data:`MAX_TOKENS` tokens along one axis of a view.

    Raises:
        ConfigError: too many tokens; the message gives the limit and the alternative.
    """
    if count > MAX_TOKENS:
        raise ConfigError(
            f"{what}: {count:,} tokens are too many for one view, which takes at most {MAX_TOKENS:,}; "
            "pass a slice (attention[..., a:b, a:b], tokens[a:b]) or draw head statistics with "
            "head_statistics_grid"
        )


def shown_tokens(tokens: Sequence[str], prettify: bool) -> tuple[str, ...]:
    """What to write for each token.

    ``prettify`` turns a tokenizer's spelling into text: byte-level pieces are decoded, the marks for
    a preceding space (``Ġ``, ``▁``) are dropped. Either way characters that draw nothing or reorder
    their neighbours (control characters, line separators, bidirectional marks, lone surrogates) are
    named: NUL is ``⟨U+0000⟩``.
    """
    texts = [str(token) for token in tokens]
    if prettify:
        byte_level = any("Ġ" in text or "Ċ" in text for text in texts)
        texts = [_plain(_decoded(text) if byte_level else text) for text in texts]
    return tuple("".join(_visible(c) for c in text) or "(empty)" for text in texts)


def sink_positions(tokens: Sequence[str], first: bool) -> tuple[int, ...]:
    """Positions that commonly soak up attention: separators, and the first token where ``first``."""
    return tuple(i for i, token in enumerate(tokens) if token in SINK_TOKENS or (first and i == 0))


def _plain(text: str) -> str:
    """Drop one leading space mark; spell out white space that would otherwise be invisible."""
    text = text.replace("▁", " ").removesuffix("</w>")
    text = text.removeprefix(" ") if text.strip(" ") else text.replace(" ", "␣")
    return text.replace("\n", "↵").replace("\t", "⇥")


def _visible(character: str) -> str:
    if character in _REORDERING or unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp"):
        return f"⟨U+{ord(character):04X}⟩"
    return character


def _byte_alphabet() -> dict[str, int]:
    """Byte-level BPE's printable stand-in for each of the 256 bytes (GPT-2), as character -> byte."""
    kept = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    moved = [byte for byte in range(256) if byte not in set(kept)]
    return {chr(b): b for b in kept} | {chr(256 + i): b for i, b in enumerate(moved)}


_BYTES = _byte_alphabet()


def _decoded(token: str) -> str:
    """A byte-level piece as text; unchanged where it is a special token or half a character."""
    try:
        return bytes(_BYTES[c] for c in token).decode("utf-8")
    except (KeyError, UnicodeDecodeError):
        return token
