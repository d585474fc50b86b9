"""Attention of one text: words, entropy, distance, rollout, flow, sinks, norms, effective attention.

Functions take attention (layer, head, query, key) as a trace holds it, without padding; rows sum to one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import entr

from workbench.errors import TraceError
from workbench.models import LoadedModel
from workbench.shapes import Array, AttentionArray
from workbench.statistics import Statistic
from workbench.text import Alignment
from workbench.trace import Stack, TextTrace, Trace
from workbench.trace.parts import head_projections

__all__ = [
    "WordGroups",
    "attention_distance",
    "attention_entropy",
    "attention_rollout",
    "check_rows",
    "effective_attention",
    "merge_words",
    "sink_mass",
    "transformed_value_norms",
    "value_weighted_norms",
    "without_sink",
    "word_groups",
]


def check_rows(attention: AttentionArray) -> None:
    """Raise :class:`TraceError` unless rows are distributions: none negative, and of sum one.

    Within 1e-2, which half precision keeps.
    """
    if attention.size and attention.min() < -1e-2:
        raise TraceError(
            f"attention rows must be distributions over tokens, got weights down to {attention.min():.4f}; take "
            "weights after the softmax; forms such as Linformer and Nyströmformer have no distributions"
        )
    sums = attention.sum(-1)
    if attention.size and not np.allclose(sums, 1.0, atol=1e-2):
        raise TraceError(
            f"attention rows must sum to 1, got {sums.min():.4f} to {sums.max():.4f}; take weights after the "
            "softmax, without padding: workbench.trace(model, texts, record={'attention'}); forms such as Linformer "
            "and Nyströmformer have no distributions"
        )


def merge_words(
    attention: AttentionArray, query: WordGroups, key: WordGroups | None = None
) -> AttentionArray:
    """Attention between words: summed over the attended pieces, averaged over the attending ones.

    Rows still sum to one (Clark et al. 2019, section 4.1). ``key`` differs from ``query`` in cross-attention.
    """
    keys = query if key is None else key
    for noun, words, size in (("queries", query, attention.shape[2]), ("keys", keys, attention.shape[3])):
        if words.tokens != size:
            raise TraceError(f"the words are of {words.tokens} tokens, the attention has {size} {noun}")
    merged: Array = query.mean_matrix @ attention @ keys.sum_matrix.T
    return merged.astype(attention.dtype)


def attention_entropy(attention: AttentionArray) -> Statistic:
    """Entropy of each head's weights in nats, averaged over queries; 0 log 0 = 0.

    Example:
        ```python
        import workbench
        from workbench.analysis.attention import attention_entropy

        traced = workbench.trace("novels-encoder", "The keys to the cabinet are here.")
        print(attention_entropy(traced[0].attention).to_frame())
        ```
    """
    check_rows(attention)
    return _over_queries("attention entropy", "nats", entr(attention).sum(-1))


def attention_distance(attention: AttentionArray) -> Statistic:
    """Expected distance between query and key in tokens, averaged over queries (self-attention only)."""
    check_rows(attention)
    queries, keys = attention.shape[2:]
    if queries != keys:
        raise TraceError(f"distance needs self-attention; this has {queries} queries and {keys} keys")
    distance = np.abs(np.subtract.outer(np.arange(queries), np.arange(keys)))
    return _over_queries("attention distance", "tokens", (attention * distance).sum(-1))


def sink_mass(attention: AttentionArray, sinks: tuple[int, ...] = (0,)) -> Statistic:
    """Weight on the sink tokens (the first by default), averaged over the queries that are not sinks."""
    check_rows(attention)
    others = np.setdiff1d(np.arange(attention.shape[2]), sinks)
    mass = attention[..., list(sinks)].sum(-1)
    return _over_queries(f"mass on tokens {list(sinks)}", "mass", mass[:, :, others])


def without_sink(attention: AttentionArray, sinks: tuple[int, ...] = (0,)) -> AttentionArray:
    """Attention with the sink keys removed and each row scaled to sum to one again.

    Sinks are tokens that take the weight a head has no use for: the first token, [SEP] (Clark et al. 2019,
    section 3.2; Xiao et al. 2024). A row that attends to sinks alone becomes zero.
    """
    kept = attention.copy()
    kept[..., list(sinks)] = 0
    sums = kept.sum(-1, keepdims=True)
    return np.divide(kept, sums, out=np.zeros_like(kept), where=sums > 1e-12)


def attention_rollout(
    attention: AttentionArray, tokens: Sequence[str] | None = None, residual: float = 0.5
) -> Statistic:
    """How much of each input token reaches each position after each layer, if attention alone mixed them.

    Heads are averaged, the residual connection counts as identity with weight ``residual``, and layers are
    multiplied (Abnar & Zuidema 2020, equation 1): (layer, query, key). Needs all layers, from the first on.
    """
    check_rows(attention)
    mixed = _with_residual(attention, residual)
    rolled = [mixed[0]]
    for layer in mixed[1:]:
        rolled.append(layer @ rolled[-1])
    return _between_tokens("attention rollout", "share", np.stack(rolled), ("layer", "query", "key"), tokens)


def effective_attention(
    attention: AttentionArray,
    values: Float[Array, "layer key_head key head_width"],
    tokens: Sequence[str] | None = None,
) -> Statistic:
    """The part of each row that can change a head's output: (layer, head, query, key).

    With more tokens than value dimensions different weights give the same output. The component of a row
    in the left null space of the values T (x with T^T x = 0) is taken out (Brunner et al. 2020, section 3).
    Rows need not sum to one nor be positive. ``values`` as recorded by "queries_keys", of the same layers
    and heads; values that query heads share are repeated.
    """
    if values.shape[0] != attention.shape[0] or attention.shape[1] % values.shape[1]:
        raise TraceError(
            f"attention of {attention.shape[:2]} layers and heads, values of {values.shape[:2]}: record both "
            "for the same layers and all heads"
        )
    spread = np.repeat(values, attention.shape[1] // values.shape[1], axis=1).astype(np.float64)
    basis, sizes, _ = np.linalg.svd(spread, full_matrices=False)  # (L, H, K, r), (L, H, r)
    relevant = sizes > sizes[..., :1] * max(spread.shape[2:]) * np.finfo(np.float32).eps
    basis = basis * relevant[..., None, :]
    effective = attention @ basis @ basis.swapaxes(-1, -2)
    axes = ("layer", "head", "query", "key")
    return _between_tokens("effective attention", "weight", effective, axes, tokens)


def _between_tokens(
    name: str, unit: str, values: Array, axes: tuple[str, ...], tokens: Sequence[str] | None
) -> Statistic:
    """A value for each query and key of one text, which therefore has no standard error."""
    labels = {} if tokens is None else {"query": tuple(tokens), "key": tuple(tokens)}
    return Statistic(name=name, unit=unit, values=values, axes=axes, labels=labels, note="one text")


def _with_residual(attention: AttentionArray, residual: float) -> Float[Array, "layer query key"]:
    if not 0 <= residual < 1:
        raise TraceError(f"residual is {residual}; allowed: at least 0 and less than 1")
    mean = attention.mean(1)
    mixed: Array = (1 - residual) * mean + residual * np.eye(mean.shape[-1])
    return mixed


def _over_queries(name: str, unit: str, values: Float[Array, "layer head query"]) -> Statistic:
    """Mean over queries; the error is that of a mean of independent queries, which those of a text are not."""
    count = values.shape[-1]
    errors = values.std(-1, ddof=1) / np.sqrt(count) if count > 1 else np.full(values.shape[:2], np.nan)
    return Statistic(
        name=name,
        unit=unit,
        values=values.mean(-1),
        axes=("layer", "head"),
        standard_error=errors,
        note=f"one text, {count} queries; for errors between texts use head_statistics",
    )


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


def value_weighted_norms(model: LoadedModel, trace: Trace, text: TextTrace) -> Statistic:
    """||a f(x)|| for each query and key: attention a times the norm of the key's transformed value f(x).

    f(x) = (x W_V + b_V) W_O of one head (Kobayashi et al. 2020, norm-based analysis); the bias of the output
    projection belongs to no token and is left out. Needs ``record={"attention", "queries_keys"}``.
    """
    norms = transformed_value_norms(model, trace, text)
    stack = Stack.ENCODER if text.decoder_attention is None else Stack.DECODER
    return Statistic(
        name="value-weighted attention",
        unit="norm",
        values=text.attention * norms[:, :, None, :],
        axes=("layer", "head", "query", "key"),
        labels={
            "layer": trace.layers[stack],
            "head": trace.heads[stack],
            "query": text.tokens,
            "key": text.tokens,
        },
        note="one text",
    )


def transformed_value_norms(
    model: LoadedModel, trace: Trace, text: TextTrace
) -> Float[Array, "layer head key"]:
    """||f(x)|| of every key in every head: how much a token can contribute at all."""
    values = text.get("values")  # (L, key heads, T, d)
    stack = Stack.ENCODER if text.decoder_attention is None else Stack.DECODER
    layers, heads = trace.layers[stack], trace.heads[stack]
    if len(heads) % values.shape[1]:
        raise TraceError(f"norms need all heads of the trace; it has {len(heads)}: record it with heads=None")
    shared = len(heads) // values.shape[1]
    width = values.shape[-1]
    projections = head_projections(model.model, stack)
    norms = np.empty((len(layers), len(heads), values.shape[2]))
    for i, layer in enumerate(layers):
        matrix = projections[layer].float().cpu().numpy()  # (H * d, D)
        for j, head in enumerate(heads):
            output = values[i, j // shared] @ matrix[head * width : (head + 1) * width]
            norms[i, j] = np.linalg.norm(output, axis=-1)
    return norms
