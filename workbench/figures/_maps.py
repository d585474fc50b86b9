"""Attention in any of the forms that people hold it in, as one checked record per kind of attention."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from workbench.errors import ConfigError, NumericsError, TraceError
from workbench.shapes import Array, AttentionArray

__all__ = [
    "MAX_TOKENS",
    "AttentionMap",
    "Stack",
    "TokenAxis",
    "Words",
    "as_stack",
    "check_length",
    "chosen",
    "position_of",
    "shown_tokens",
    "sink_positions",
]

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


Stack: TypeAlias = Any


"""Hugging Face's tuple of (1, head, query, key) per layer, or one (layer, head, query, key) array."""


Words: TypeAlias = Sequence[int | None]


"""Word number of each token, ``None`` for tokens outside words: what ``BatchEncoding.word_ids`` returns."""


@dataclass(frozen=True, kw_only=True)
class TokenAxis:
    """Tokens along one axis: ``shown`` text, the word ``groups`` they belong to, and ``sinks`` (positions)."""

    shown: tuple[str, ...]
    groups: tuple[int, ...] | None
    group_names: tuple[str, ...]
    sinks: tuple[int, ...]

    @classmethod
    def build(
        cls, tokens: Sequence[str], words: Words | None, prettify: bool, first_is_sink: bool
    ) -> TokenAxis:
        """Prepare tokens for display; ``words`` numbers their words, as in ``BatchEncoding.word_ids``."""
        shown = shown_tokens(tokens, prettify)
        groups, names = (None, ()) if words is None else _group(shown, words)
        return cls(shown=shown, groups=groups, group_names=names, sinks=sink_positions(tokens, first_is_sink))


@dataclass(frozen=True, kw_only=True)
class AttentionMap:
    """Weights of one kind of attention (``self``, ``encoder``, ``decoder``, ``cross``) with its tokens.

    ``layers`` and ``heads`` are the numbers to show for the first two axes of ``weights``; ``split`` is
    where sentence B starts. Where ``signed``, weights may be of any size and sign, as those of Nyströmformer.
    """

    name: str
    weights: AttentionArray
    layers: tuple[int, ...]
    heads: tuple[int, ...]
    queries: TokenAxis
    keys: TokenAxis
    split: int | None = None
    signed: bool = False

    @property
    def limit(self) -> float:
        """The largest magnitude that is drawn: 1, or that of signed weights."""
        return (float(np.abs(self.weights).max()) or 1.0) if self.signed else 1.0

    def __post_init__(self) -> None:
        found = (len(self.queries.shown), len(self.keys.shown))
        if self.weights.shape[2:] != found:
            raise ConfigError(
                f"{self.name} attention is {self.weights.shape[2]} x {self.weights.shape[3]} (query x key) but "
                f"there are {found[0]} and {found[1]} tokens; pass the tokens of the same pass, padding removed"
            )
        if self.split is not None and not 0 < self.split < found[0]:
            raise ConfigError(f"sentence_b_start={self.split} must lie between 1 and {found[0] - 1}")
        low, high = float(self.weights.min()), float(self.weights.max())
        if not np.isfinite([low, high]).all():
            raise NumericsError(f"{self.name} attention has NaN or infinite weights; run `workbench doctor`")
        if not self.signed and (low < 0 or high > 1.001):
            raise TraceError(
                f"{self.name} attention spans {low:.4g} to {high:.4g} but weights lie in 0..1; "
                "draw other values with heat_map, or pass signed=True where attention has such weights by design"
            )


def as_stack(
    values: Stack, what: str, include_layers: Sequence[int] | None = None
) -> tuple[Array, tuple[int, ...]]:
    """One float32 (layer, head, query, key) array and its layer numbers; only ``include_layers`` are copied.

    Raises:
        TraceError: a chosen layer is ``None``: the model did not return it.
        ConfigError: wrong number of axes, more than one text, layers that differ in shape, or no layer.
    """
    count = len(values)
    layers = chosen(include_layers, count, "include_layers")
    if not layers:
        raise ConfigError(f"{what}: no layers; pass attention of at least one layer")
    arrays = [_one_layer(values[layer], layer, what) for layer in layers]
    shapes = {array.shape for array in arrays}
    if len(shapes) > 1:
        raise ConfigError(
            f"{what}: layers differ in shape, {sorted(shapes)}; show equal ones with include_layers="
        )
    if 0 in arrays[0].shape:
        raise ConfigError(f"{what}: shape {arrays[0].shape} of a layer is empty; give at least one token")
    check_length(max(arrays[0].shape[1:]), what)
    return np.stack(arrays), layers


def chosen(numbers: Sequence[int] | None, count: int, what: str) -> tuple[int, ...]:
    """``numbers`` checked against ``range(count)``; all of them for ``None``."""
    if numbers is None:
        return tuple(range(count))
    for number in numbers:
        if not 0 <= number < count:
            raise TraceError(f"{what}: {number} is out of range; the model has 0 to {count - 1}")
    return tuple(int(number) for number in numbers)


def position_of(number: int, shown: tuple[int, ...], what: str) -> int:
    """Where ``number`` stands among those shown.

    Raises:
        TraceError: it is not shown; the message lists what is.
    """
    if number not in shown:
        span = f"{shown[0]} to {shown[-1]}" if shown == tuple(range(shown[0], shown[-1] + 1)) else str(shown)
        raise TraceError(f"{what} {number} is not shown; choose from {span}")
    return shown.index(number)


def _one_layer(layer: Any, number: int, what: str) -> Array:
    if layer is None:
        raise TraceError(
            f"{what}: layer {number} is None; load the model with attn_implementation='eager', "
            "or leave the layer out with include_layers="
        )
    if hasattr(layer, "detach"):  # a torch tensor: float() first, NumPy has no bfloat16
        layer = layer.detach().cpu().float()
    array = np.asarray(layer, dtype=np.float32)
    if array.ndim == 4 and array.shape[0] == 1:
        array = array[0]
    if array.ndim != 3:
        raise ConfigError(
            f"{what}: layer {number} has shape {array.shape}; expected (head, query, key), or "
            "(1, head, query, key): one text at a time, attention[layer][text : text + 1]"
        )
    return array


def _group(shown: Sequence[str], words: Words) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Group numbers per token, counted along the text, and each group's name; word-less tokens stand alone."""
    if len(words) != len(shown):
        raise ConfigError(f"words= has {len(words)} entries for {len(shown)} tokens; give one per token")
    groups: list[int] = []
    names: list[str] = []
    for i, (text, word) in enumerate(zip(shown, words, strict=True)):
        if i and word is not None and word == words[i - 1]:
            names[-1] += text.removeprefix("##")
        else:
            names.append(text)
        groups.append(len(names) - 1)
    return tuple(groups), tuple(names)
