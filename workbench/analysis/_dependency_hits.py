"""Which heads point from a word to its syntactic head: counted for a batch of sentences at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.analysis._words import word_groups
from workbench.data.conllu import ConlluSentence
from workbench.text import Alignment

__all__ = ["DIRECTIONS", "BatchOfTrees", "ParsedSentence", "batch_of_trees", "head_hits", "offset_hits"]

# How a head points: the dependent attends to its head, or the head attends to its dependent.
DIRECTIONS = ("dependent to head", "head to dependent")


@dataclass(frozen=True)
class ParsedSentence:
    """A parsed sentence and its tokens; ``heads`` and ``relations`` skip words that have no token."""

    alignment: Alignment
    heads: tuple[int, ...]  # position of each word's head among the words kept, -1 for none
    relations: tuple[str, ...]

    @classmethod
    def of(cls, tree: ConlluSentence, alignment: Alignment, subtypes: bool) -> ParsedSentence:
        """Match a tree with the words that have tokens; ``subtypes`` keeps the part of relations after a colon."""
        kept = [word for word in word_groups(alignment, special=False).word_ids if word is not None]
        place = {word: i for i, word in enumerate(kept)}
        heads = tuple(place.get(-1 if (h := tree.words[w].head) is None else h, -1) for w in kept)
        names = [tree.words[w].relation for w in kept]
        return cls(alignment, heads, tuple(n if subtypes else n.partition(":")[0] for n in names))


@dataclass(frozen=True)
class BatchOfTrees:
    """Padded tensors of a batch (B sentences, W words, T tokens, R relations)."""

    mean: Tensor  # (B, W, T): averages over a word's tokens
    total: Tensor  # (B, W, T): sums over a word's tokens
    heads: Tensor  # (B, W): position of the head, -1 for none
    relations: Tensor  # (B, W, R): 1 for the relation of a word that has a head, and for "all"

    @property
    def counts(self) -> Tensor:
        """Words of each relation (B, R)."""
        return self.relations.sum(1)


def batch_of_trees(
    sentences: Sequence[ParsedSentence], relations: Sequence[str], device: torch.device
) -> BatchOfTrees:
    """Prepare a batch. The last column of ``relations`` stands for all of them together."""
    words = max(len(s.heads) for s in sentences)
    tokens = max(len(s.alignment) for s in sentences)
    column = {name: i for i, name in enumerate(relations)}
    total = torch.zeros(len(sentences), words, tokens)
    heads = torch.full((len(sentences), words), -1)
    one_hot = torch.zeros(len(sentences), words, len(relations))
    for row, sentence in enumerate(sentences):
        matrix = torch.from_numpy(word_groups(sentence.alignment, special=False).sum_matrix)
        total[row, : matrix.shape[0], : matrix.shape[1]] = matrix
        heads[row, : len(sentence.heads)] = torch.tensor(sentence.heads)
        for word, (head, name) in enumerate(zip(sentence.heads, sentence.relations, strict=True)):
            if head >= 0 and name in column:
                one_hot[row, word, column[name]] = 1
            if head >= 0:
                one_hot[row, word, -1] = 1
    mean = total / total.sum(-1, keepdim=True).clamp(min=1)
    return BatchOfTrees(*(t.to(device) for t in (mean, total, heads, one_hot)))


def head_hits(weights: Tensor, batch: BatchOfTrees) -> Tensor:
    """Whether each head finds each word's head: (B, H, direction, W) of 0 and 1, from weights (B, H, T, T).

    The guess is the most attended other word, or the word that attends most (Clark et al. 2019, section 4.2);
    special tokens do not take part.
    """
    between = batch.mean[:, None] @ weights @ batch.total[:, None].transpose(-1, -2)  # (B, H, W, W)
    words = between.shape[-1]
    absent = (batch.total.sum(-1) == 0)[:, None]  # (B, 1, W)
    between.masked_fill_(torch.eye(words, dtype=torch.bool, device=between.device), -1.0)
    between.masked_fill_(absent[:, :, None, :] | absent[:, :, :, None], -1.0)
    # Where a causal model sees no candidate all weights are 0: that is no guess.
    best = [between.max(-1), between.max(-2)]
    guesses = [torch.where(found.values > 0, found.indices, -2) for found in best]
    return (torch.stack(guesses, dim=2) == batch.heads[:, None, None, :]).float()


def offset_hits(batch: BatchOfTrees, offsets: Sequence[int]) -> Tensor:
    """Whether each word's head stands at a fixed offset from it: (B, offset, W) of 0 and 1."""
    position = torch.arange(batch.heads.shape[1], device=batch.heads.device)
    distance = torch.where(batch.heads >= 0, batch.heads - position, 0)  # (B, W)
    shifts = torch.tensor(list(offsets), device=batch.heads.device)
    return (distance[:, None, :] == shifts[:, None]).float()
