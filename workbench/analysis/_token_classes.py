"""Which tokens of a text are [CLS], [SEP], punctuation, or part of a rare word."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float

from workbench.shapes import Array
from workbench.text import Alignment, split_words

__all__ = ["CLASSES", "count_words", "token_classes"]

# Columns of token_classes, as the statistics name them.
CLASSES = ("[CLS]", "[SEP]", "punctuation", "rare words")


def count_words(texts: Iterable[str]) -> Counter[str]:
    """How often each word occurs, ignoring case; punctuation marks are words of their own."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text[start:end].lower() for start, end in split_words(text, punctuation=True))
    return counts


def token_classes(
    alignment: Alignment, tokenizer: Any, counts: Counter[str], rare_count: int
) -> Float[Array, "token class"]:
    """1 where a token belongs to the class, else 0; the columns are :data:`CLASSES`.

    [CLS] and [SEP] are whatever the tokenizer calls its cls and sep tokens. A rare word occurs at most
    ``rare_count`` times in ``counts``; punctuation and special tokens are never rare.
    """
    classes = np.zeros((len(alignment), len(CLASSES)), dtype=np.float32)
    ids = np.array(alignment.ids)
    for column, special in enumerate((tokenizer.cls_token_id, tokenizer.sep_token_id)):
        if special is not None:
            classes[:, column] = ids == special
    for token, word in enumerate(alignment.word_ids):
        if word is None:
            continue
        if is_punctuation(alignment.piece(token)):
            classes[token, 2] = 1
        elif counts[strip_punctuation(alignment.word(word)).lower()] <= rare_count:
            classes[token, 3] = 1
    return classes


@lru_cache(maxsize=8192)
def is_punctuation(piece: str) -> bool:
    """Whether a piece of text is nothing but punctuation marks and symbols (Unicode categories P and S)."""
    return bool(piece) and all(unicodedata.category(char)[0] in "PS" for char in piece)


@lru_cache(maxsize=8192)
def strip_punctuation(word: str) -> str:
    """The longest run without punctuation: ``"(well-known),"`` counts as ``"known"``."""
    runs = [word[start:end] for start, end in split_words(word, punctuation=True)]
    return max(runs, key=lambda run: (not is_punctuation(run), len(run)), default=word)
