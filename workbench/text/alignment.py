"""Which characters each token stands for, and which tokens stand for each word.

Everything is computed from character offsets into the text as the caller wrote it, so lower-casing,
accent stripping, NFKC and byte-level pieces inside one character make no difference to the caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from workbench.characters import check_text
from workbench.text._offsets import complete, raw_encoding, words_of_tokens
from workbench.text.words import Span, join_words, split_words

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["Alignment", "align", "align_words"]


@dataclass(frozen=True)
class Alignment:
    """One text, its tokens and its words. Spans are half-open and count characters of ``text``.

    Every non-whitespace character of a word lies in a token that overlaps the word, except in the words
    listed by :attr:`dropped`, which the tokenizer turned into nothing. Tokens that split one character share
    its span; so may a lone space marker that the tokenizer puts before the first word. A token that straddles
    words belongs to each; its ``word_ids`` entry names the first.
    """

    text: str
    tokens: tuple[str, ...]  # pieces as the vocabulary spells them, such as "##ing" or "Ġthe"
    ids: tuple[int, ...]
    offsets: tuple[Span, ...]  # without surrounding whitespace; empty where the tokenizer added the token
    words: tuple[Span, ...]
    word_ids: tuple[int | None, ...]  # None: overlaps no word (added, or whitespace)

    def __post_init__(self) -> None:
        lengths = {len(self.tokens), len(self.ids), len(self.offsets), len(self.word_ids)}
        assert len(lengths) == 1, f"one entry a token in each field, got {lengths}"

    def __len__(self) -> int:
        """Number of tokens."""
        return len(self.ids)

    @cached_property
    def token_spans(self) -> tuple[Span, ...]:
        """For each word, the half-open range of tokens that overlap it; ``(k, k)`` for a dropped word."""
        spans: list[Span] = []
        token = 0
        for start, end in self.words:
            # Tokens are ordered by where they end, so those before the word never matter to later words.
            while token < len(self) and self.offsets[token][1] <= start:
                token += 1
            last = token
            for i in range(token, len(self)):
                begin, stop = self.offsets[i]
                if begin >= end:
                    break
                if begin < stop:
                    last = i + 1
            spans.append((token, last))
        return tuple(spans)

    @property
    def dropped(self) -> tuple[int, ...]:
        """Words for which the tokenizer made no token (empty words, or only characters that it removes)."""
        return tuple(w for w, (first, last) in enumerate(self.token_spans) if first == last)

    def word(self, index: int) -> str:
        """The text of a word."""
        start, end = self.words[index]
        return self.text[start:end]

    def piece(self, token: int) -> str:
        """The characters of ``text`` that a token stands for; empty for one that the tokenizer added."""
        start, end = self.offsets[token]
        return self.text[start:end]


def align(
    text: str,
    tokenizer: PreTrainedTokenizerBase,
    *,
    add_special_tokens: bool = True,
    parse_special: bool | None = None,
    punctuation: bool = False,
) -> Alignment:
    """Encode ``text`` and align its tokens with its whitespace-separated words.

    Args:
        text: any Unicode text.
        tokenizer: a transformers tokenizer, fast or slow; one without offsets has them reconstructed.
        add_special_tokens: whether the tokenizer adds what it adds by itself, such as [CLS] and [SEP].
        parse_special: whether a special token spelled out in ``text`` becomes that token; by default as the tokenizer
            does (it does so unless its ``split_special_tokens`` is set).
        punctuation: whether punctuation marks are words of their own; see :func:`split_words`.

    Raises:
        DataError: ``text`` is not a ``str`` or has a lone surrogate.

    Example:
        ```python
        import workbench

        model = workbench.load("novels-decoder")
        alignment = workbench.text.align("She was unhappy.", model.tokenizer)
        print(alignment.tokens, alignment.word_ids)
        ```
    """
    check_text(text)
    words = split_words(text, punctuation=punctuation)
    return _aligned(text, words, tokenizer, add_special_tokens, parse_special)


def align_words(
    words: Sequence[str],
    tokenizer: PreTrainedTokenizerBase,
    *,
    space_after: Sequence[bool] | None = None,
    add_special_tokens: bool = True,
    parse_special: bool | None = None,
) -> Alignment:
    """Encode a sentence that is split into words already, such as one of CoNLL-U; the words stay as given.

    The words are joined by single spaces, or as ``space_after`` says. ``result.token_spans[i]`` is the range
    of tokens of word ``i``, empty for a word that the tokenizer turns into nothing.

    Raises:
        DataError: a word is not a ``str`` or has a lone surrogate, or ``space_after`` has another length.
    """
    text, spans = join_words(words, space_after)
    return _aligned(text, spans, tokenizer, add_special_tokens, parse_special)


def _aligned(
    text: str,
    words: tuple[Span, ...],
    tokenizer: PreTrainedTokenizerBase,
    add_special_tokens: bool,
    parse_special: bool | None,
) -> Alignment:
    if parse_special is None:
        parse_special = not tokenizer.split_special_tokens
    raw = raw_encoding(text, tokenizer, add_special_tokens=add_special_tokens, parse_special=parse_special)
    offsets = complete(text, raw.offsets, words)
    return Alignment(
        text=text,
        tokens=raw.tokens,
        ids=raw.ids,
        offsets=offsets,
        words=words,
        word_ids=words_of_tokens(offsets, words),
    )
