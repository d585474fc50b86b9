"""Groups of tokens that make a word, as the two matrices that merge attention."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from workbench.shapes import Array
from workbench.text import Alignment

__all__ = ["WordGroups", "word_groups"]


@dataclass(frozen=True, eq=False)
class WordGroups:
    """Words of a text in order; special tokens are words of their own where they were kept."""

    labels: tuple[str, ...]
    sum_matrix: Float[Array, "word token"]  # 1 where a token belongs to a word
    word_ids: tuple[int | None, ...]  # word of the alignment, or None for a special token

    @property
    def tokens(self) -> int:
        """Number of tokens of the text."""
        return int(self.sum_matrix.shape[1])

    @property
    def mean_matrix(self) -> Float[Array, "word token"]:
        """1 / number of its tokens, where a token belongs to a word."""
        counts = self.sum_matrix.sum(1, keepdims=True)
        return self.sum_matrix / np.maximum(counts, 1)


def word_groups(alignment: Alignment, special: bool = True) -> WordGroups:
    """The words of ``alignment``; without ``special``, tokens that the tokenizer added belong to none.

    A token that straddles words counts for the first of them; words without a token of their own are left out.
    """
    groups: list[tuple[int | None, list[int]]] = []
    for token, word in enumerate(alignment.word_ids):
        if word is not None and groups and groups[-1][0] == word:
            groups[-1][1].append(token)
        elif word is not None or special:
            groups.append((word, [token]))
    matrix = np.zeros((len(groups), len(alignment)), dtype=np.float32)
    for row, (_, tokens) in enumerate(groups):
        matrix[row, tokens] = 1
    labels = tuple(
        alignment.tokens[tokens[0]] if word is None else alignment.word(word) for word, tokens in groups
    )
    return WordGroups(labels, matrix, tuple(word for word, _ in groups))
