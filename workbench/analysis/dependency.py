"""Which head knows which dependency relation, judged on sentences that it was not chosen on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from workbench.analysis._head_sums import RatioSums
from workbench.analysis.attention import word_groups
from workbench.analysis.heads import reading_stack
from workbench.data.conllu import ConlluSentence
from workbench.errors import DataError
from workbench.estimate import Estimate
from workbench.models import LoadedModel
from workbench.models.dispatched import stack_layers
from workbench.shapes import Array
from workbench.statistics import Statistic
from workbench.text import Alignment, align_words
from workbench.trace import AttentionCall, AttentionObserver, Stack, observe_attention
from workbench.trace.encoding import Encoded, inputs_of
from workbench.trace.structure import call_model

__all__ = [
    "DIRECTIONS",
    "BatchOfTrees",
    "DependencyHead",
    "DependencyHeads",
    "ParsedSentence",
    "batch_of_trees",
    "dependency_heads",
    "head_hits",
    "offset_hits",
]

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


# The baseline guesses that the head is the word this many places to the right (left where negative).
_OFFSETS = tuple(k for k in range(-10, 11) if k)


_ALL = "all relations"


_BATCH = 16


@dataclass(frozen=True)
class DependencyHead:
    """One relation: its best head and best fixed offset on the first half, judged on the second."""

    relation: str
    words: int  # in the second half
    layer: int
    head: int
    direction: str
    offset: int
    accuracy: Estimate
    baseline: Estimate
    difference: Estimate


@dataclass(frozen=True)
class DependencyHeads:
    """The table, the accuracies of all heads on the half that chose, and what was left out."""

    model: str
    rows: tuple[DependencyHead, ...]
    selection: Statistic  # (layer, head, direction, relation)
    sentences: int
    skipped: int  # sentences longer than the model reads

    def to_frame(self) -> pd.DataFrame:
        """One row a relation, the most frequent first."""
        rows = []
        for row in self.rows:
            record = {
                "relation": row.relation,
                "words": row.words,
                "head": f"{row.layer}-{row.head}",
                "direction": row.direction,
                "offset": row.offset,
            }
            for name, estimate in (("accuracy", row.accuracy), ("baseline", row.baseline)):
                record |= {name: estimate.value, f"{name} low": estimate.low, f"{name} high": estimate.high}
            difference = row.difference
            record |= {
                "difference": difference.value,
                "difference low": difference.low,
                "difference high": difference.high,
            }
            rows.append(record)
        return pd.DataFrame(rows)


def dependency_heads(
    model: LoadedModel,
    trees: Sequence[ConlluSentence],
    *,
    subtypes: bool = False,
    min_words: int = 30,
) -> DependencyHeads:
    """For each relation, the head whose attention best finds a word's syntactic head.

    After Clark et al. (2019, section 4.2), in both directions. Sentences take turns: the even ones choose
    head and baseline offset, the odd ones judge them, so no best of many is judged on what chose it.
    Intervals are 95 %, clustered by sentence. Relations with fewer than ``min_words`` words in either half
    are left out. ``subtypes`` keeps "nsubj:pass" apart from "nsubj".

    Raises :class:`DataError` if fewer than four sentences fit the model.
    """
    sentences, skipped = _sentences(model, trees, subtypes)
    if len(sentences) < 4:
        raise DataError(f"{len(sentences)} of {len(trees)} sentences can be used; at least 4 are needed")
    halves = sentences[::2], sentences[1::2]
    relations = [*_frequent(halves, min_words), _ALL]
    chosen, selection = _choose(model, halves[0], relations)
    judged = RatioSums()
    for batch, hits in _passes(model, halves[1], relations):
        judged.add(_judge(batch, hits, chosen), batch.counts[:, None].cpu().numpy())
    rows = tuple(_row(name, i, chosen[i], judged) for i, name in enumerate(relations))
    return DependencyHeads(model.name, rows, selection, len(sentences), skipped)


@dataclass(frozen=True)
class _Choice:
    layer: int
    head: int
    direction: int
    offset: int  # position in _OFFSETS


def _sentences(
    model: LoadedModel, trees: Sequence[ConlluSentence], subtypes: bool
) -> tuple[list[ParsedSentence], int]:
    aligned = [align_words(t.forms, model.tokenizer, space_after=t.space_after) for t in trees]
    fitting = [
        ParsedSentence.of(tree, alignment, subtypes)
        for tree, alignment in zip(trees, aligned, strict=True)
        if 0 < len(alignment) <= model.max_length
    ]
    usable = [sentence for sentence in fitting if len(sentence.heads) > 1]
    return usable, sum(len(alignment) > model.max_length for alignment in aligned)


def _frequent(halves: tuple[list[ParsedSentence], list[ParsedSentence]], min_words: int) -> list[str]:
    """Relations frequent enough in both halves, the most frequent first."""
    counts = [
        Counter(name for s in half for name, head in zip(s.relations, s.heads, strict=True) if head >= 0)
        for half in halves
    ]
    return [
        name for name, _ in sum(counts, Counter()).most_common() if min(c[name] for c in counts) >= min_words
    ]


class _Hits(AttentionObserver):
    """Observes one stack; calls ``take`` with each layer's hits."""

    def __init__(self, stack: Stack, take: Callable[[int, Tensor], None]) -> None:
        super().__init__(stack)
        self._take = take
        self.batch: BatchOfTrees | None = None

    def observe(self, call: AttentionCall) -> None:
        """Add one layer of the batch."""
        assert self.batch is not None, "a batch comes before its pass"
        self._take(call.layer, head_hits(call.weights.float(), self.batch))


def _passes(
    model: LoadedModel, sentences: Sequence[ParsedSentence], relations: Sequence[str]
) -> Iterator[tuple[BatchOfTrees, Tensor]]:
    """Each batch and the hits of all layers in it, (L, B, H, direction, W)."""
    _, where, root = reading_stack(model)
    layers: list[Tensor] = []
    observer = _Hits(where, lambda layer, hits: layers.append(hits))
    order = sorted(range(len(sentences)), key=lambda i: len(sentences[i].alignment))
    with observe_attention(model, observer):
        for start in range(0, len(order), _BATCH):
            rows = [sentences[i] for i in order[start : start + _BATCH]]
            observer.batch = batch_of_trees(rows, relations, model.device)
            layers.clear()
            inputs = inputs_of(model, [Encoded(s.alignment, (0,) * len(s.alignment)) for s in rows])
            call_model(root, **inputs)
            yield observer.batch, stack_layers(layers)


def _choose(
    model: LoadedModel, sentences: Sequence[ParsedSentence], relations: Sequence[str]
) -> tuple[list[_Choice], Statistic]:
    heads, offsets = RatioSums(), RatioSums()
    for batch, hits in _passes(model, sentences, relations):
        counts = batch.counts.cpu().numpy()
        found = (hits @ batch.relations[None, :, None]).transpose(0, 1)  # (B, L, H, direction, R)
        heads.add(found.cpu().numpy(), counts[:, None, None, None])
        shifted = offset_hits(batch, _OFFSETS) @ batch.relations  # (B, offset, R)
        offsets.add(shifted.cpu().numpy(), counts[:, None])
    values = heads.values
    choices = []
    for i in range(len(relations)):
        layer, head, direction = np.unravel_index(np.argmax(values[..., i]), values.shape[:3])
        choices.append(_Choice(int(layer), int(head), int(direction), int(np.argmax(offsets.values[:, i]))))
    statistic = Statistic(
        name="dependency accuracy (choosing half)",
        unit="share of words",
        values=values,
        axes=("layer", "head", "direction", "relation"),
        labels={"direction": DIRECTIONS, "relation": tuple(relations)},
        standard_error=heads.standard_errors,
    )
    return choices, statistic


def _judge(batch: BatchOfTrees, hits: Tensor, chosen: Sequence[_Choice]) -> Array:
    """Hits of the chosen head, of the chosen offset, and their difference: (B, 3, R)."""
    shifted = offset_hits(batch, _OFFSETS)
    columns = []
    for i, choice in enumerate(chosen):
        mask = batch.relations[..., i]  # (B, W)
        head = (hits[choice.layer, :, choice.head, choice.direction] * mask).sum(-1)
        offset = (shifted[:, choice.offset] * mask).sum(-1)
        columns.append(np.stack([x.cpu().numpy() for x in (head, offset, head - offset)], axis=1))
    return np.stack(columns, axis=-1)


def _row(relation: str, column: int, choice: _Choice, judged: RatioSums) -> DependencyHead:
    values, errors = judged.values[:, column], judged.standard_errors[:, column]

    def estimate(i: int, lowest: float) -> Estimate:
        value, error = float(values[i]), float(errors[i])
        return Estimate(
            value=value,
            standard_error=error,
            low=max(value - 1.96 * error, lowest),
            high=min(value + 1.96 * error, 1.0),
            n=judged.clusters,
            method="normal, ratio of sums clustered by sentence",
        )

    return DependencyHead(
        relation=relation,
        words=int(judged.counts[0, column]),
        layer=choice.layer,
        head=choice.head,
        direction=DIRECTIONS[choice.direction],
        offset=_OFFSETS[choice.offset],
        accuracy=estimate(0, 0.0),
        baseline=estimate(1, 0.0),
        difference=estimate(2, -1.0),
    )
