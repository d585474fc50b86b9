"""How well attention from a decoder to its source aligns words: the alignment error rate of each layer and head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from workbench.analysis.attention import word_groups
from workbench.choices import member
from workbench.data.pairs import LinkedPair
from workbench.data.word_links import Link, WordLinks
from workbench.errors import ConfigError, DataError, TraceError
from workbench.estimate import Estimate
from workbench.models import LoadedModel, as_model
from workbench.shapes import Array
from workbench.statistics import measure_estimate
from workbench.text import Alignment, align_words
from workbench.trace import Stack, TextTrace, structure_of, trace

__all__ = ["AlignmentScores", "HeadAlignment", "Step", "alignment_error", "attention_links", "word_attention"]


class Step(StrEnum):
    """Whose attention belongs to a target word: that of the steps which predict its tokens, or which read them."""

    PREDICTS = "predicts"
    READS = "reads"


@dataclass(frozen=True)
class HeadAlignment:
    """One head of a layer, or the mean of its heads (``head`` is ``None``) where it has several."""

    layer: int
    head: int | None
    error: Estimate  # alignment error rate, from 0 (best) to 1
    precision: Estimate
    recall: Estimate


@dataclass(frozen=True)
class AlignmentScores:
    """The heads of a model in order, judged on ``pairs`` pairs, and how links were made of their attention."""

    model: str
    heads: tuple[HeadAlignment, ...]
    pairs: int
    step: Step
    threshold: float | None  # None: each target word is linked to the source word it attends to most

    @property
    def best(self) -> HeadAlignment:
        """The head, or mean of heads, with the smallest error."""
        return min(self.heads, key=lambda head: head.error.value)

    def to_frame(self) -> pd.DataFrame:
        """One row a head: layer, head ("mean" of all), error rate with its interval, precision, recall."""
        rows = [
            {
                "layer": h.layer,
                "head": "mean" if h.head is None else h.head,
                "alignment_error": h.error.value,
                "low": h.error.low,
                "high": h.error.high,
                "precision": h.precision.value,
                "recall": h.recall.value,
            }
            for h in self.heads
        ]
        return pd.DataFrame(rows)


def alignment_error(
    model: LoadedModel | str,
    pairs: Sequence[LinkedPair],
    *,
    step: Step | str = Step.PREDICTS,
    threshold: float | None = None,
    batch_size: int = 8,
    seed: int = 0,
) -> AlignmentScores:
    """Alignment error rate of cross-attention against gold links, for each layer and head of an encoder-decoder.

    The decoder reads the gold target. Attention between words is that of their tokens, summed over a source word's and
    averaged over a target word's; tokens that a tokenizer adds take no part. A target word is linked to the source word
    with most attention, or with ``threshold`` to every one with at least so much. With links A, sure gold links S and
    possible ones P: error 1 - (|A & S| + |A & P|) / (|A| + |S|), precision |A & P| / |A|, recall |A & S| / |S|, with
    counts over all pairs (Och & Ney 2003, equation 14 and before). Intervals are a bootstrap over pairs.

    Args:
        model: an encoder-decoder, or its name.
        pairs: sources and targets of words separated by spaces, with their links.
        step: "predicts", the step before each token, whose attention decides about it (Bahdanau et al. 2015), or
            "reads", the step after (better in deep layers of transformers: Chen et al. 2020).
        threshold: least attention of a link, above 0 and up to 1.
        batch_size: pairs of a forward pass.
        seed: of the bootstrap.

    Raises:
        TraceError: the model has no attention from a decoder to an encoder.
        ConfigError: a threshold or step that is not allowed.
        DataError: no pairs.

    Example:
        ```python
        from workbench.analysis.alignment_error import alignment_error
        from workbench.data.grammar.invented import invented_pairs

        pairs = [pair.linked() for pair in invented_pairs(8, seed=1)]
        print(alignment_error("grammar-transformer", pairs).to_frame())
        ```
    """
    model, chosen = as_model(model), member(Step, step, "step")
    if threshold is not None and not 0 < threshold <= 1:
        raise ConfigError(
            f"threshold is {threshold}; allowed: above 0, up to 1, or none for the largest weight"
        )
    if not pairs:
        raise DataError("no pairs to judge the alignment on; give one at least")
    if Stack.CROSS not in structure_of(model.model).layers:
        raise TraceError(
            f"{model.name} ({model.kind}) has no attention from a decoder to an encoder, so it aligns nothing; "
            "choose an encoder-decoder"
        )
    counts = np.stack(
        [
            _counts(word_attention(text, chosen), pair.links, threshold)
            for start in range(0, len(pairs), batch_size)
            for text, pair in _traced(model, pairs[start : start + batch_size])
        ]
    )  # (pair, layer, head, 4)
    heads = tuple(
        _judged(layer, None if head and head == counts.shape[2] - 1 else head, counts[:, layer, head], seed)
        for layer in range(counts.shape[1])
        for head in range(counts.shape[2])
    )
    return AlignmentScores(model.name, heads, len(pairs), chosen, threshold)


def _traced(model: LoadedModel, pairs: Sequence[LinkedPair]) -> list[tuple[TextTrace, LinkedPair]]:
    sources = [align_words(pair.source.split(), model.tokenizer) for pair in pairs]
    targets = [align_words(pair.target.split(), model.tokenizer, add_special_tokens=False) for pair in pairs]
    traced = trace(model, sources, {"attention"}, targets=targets, batch_size=len(pairs))
    return list(zip(traced, pairs, strict=True))


def word_attention(text: TextTrace, step: Step | str) -> Float[Array, "layer head target source"]:
    """Attention of each target word to each source word; a word without tokens, or truncated, has none.

    Summed over the source word's tokens, averaged over the steps that predict, or read, the target word's.
    """
    assert text.source is not None
    into = _by_word(text.source, mean=False)  # (source words, source tokens)
    rows = _by_word(text.alignment, mean=True)  # (target words, target tokens)
    if member(Step, step, "step") is Step.PREDICTS:
        rows = np.concatenate((rows[:, 1:], np.zeros_like(rows[:, :1])), axis=1)
    return rows @ text.get("cross_attention") @ into.T


def _by_word(alignment: Alignment, *, mean: bool) -> Float[Array, "word token"]:
    groups = word_groups(alignment, special=False)
    matrix = np.zeros((len(alignment.words), len(alignment)), dtype=np.float32)
    matrix[[word for word in groups.word_ids if word is not None]] = (
        groups.mean_matrix if mean else groups.sum_matrix
    )
    return matrix


def attention_links(weights: Float[Array, "target source"], threshold: float | None = None) -> set[Link]:
    """Links (source word, target word): the largest weight of each target word, or all from ``threshold`` on.

    A target word without any weight has no link; of equal largest weights the first source word's is taken.
    """
    if threshold is not None:
        return {(int(source), int(target)) for target, source in np.argwhere(weights >= threshold)}
    return {(int(row.argmax()), target) for target, row in enumerate(weights) if row.max() > 0}


def _counts(
    weights: Float[Array, "layer head target source"], gold: WordLinks, threshold: float | None
) -> Float[Array, "layer head count"]:
    """|A & S|, |A & P|, |A| and |S| of each head, and behind them, where there are several, of their mean."""
    mean = weights.mean(1, keepdims=True) if weights.shape[1] > 1 else weights[:, :0]
    both = np.concatenate((weights, mean), axis=1)
    counts = np.zeros((*both.shape[:2], 4))
    for place in np.ndindex(both.shape[:2]):
        links = attention_links(both[place], threshold)
        counts[place] = len(links & gold.sure), len(links & gold.possible), len(links), len(gold.sure)
    return counts


def _judged(layer: int, head: int | None, counts: Float[Array, "pair count"], seed: int) -> HeadAlignment:
    def estimate(measure: Any, *, higher_is_better: bool) -> Estimate:
        return measure_estimate(counts, measure, seed=seed, higher_is_better=higher_is_better)

    return HeadAlignment(
        layer,
        head,
        estimate(_error, higher_is_better=False),
        estimate(_precision, higher_is_better=True),
        estimate(_recall, higher_is_better=True),
    )


def _error(sample: Float[Array, "... pair count"]) -> Any:
    sure, possible, found, gold = np.moveaxis(sample.sum(-2), -1, 0)
    return 1 - _share(sure + possible, found + gold)


def _precision(sample: Float[Array, "... pair count"]) -> Any:
    _, possible, found, _ = np.moveaxis(sample.sum(-2), -1, 0)
    return _share(possible, found)


def _recall(sample: Float[Array, "... pair count"]) -> Any:
    sure, _, _, gold = np.moveaxis(sample.sum(-2), -1, 0)
    return _share(sure, gold)


def _share(part: Any, whole: Any) -> Any:
    """NaN where there is nothing to take a share of."""
    return np.divide(part, whole, out=np.full_like(np.asarray(part, dtype=float), np.nan), where=whole > 0)
