"""What each head does over a corpus, in memory for layers × heads numbers: ``head_statistics``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor, nn

from workbench.analysis._head_sums import (
    NAMES,
    SINK,
    BatchOfTexts,
    HeadSums,
    RatioSums,
    count_words,
    token_classes,
)
from workbench.errors import DataError, TraceError
from workbench.models import Kind, LoadedModel
from workbench.shapes import Array
from workbench.statistics import Statistic
from workbench.text import Alignment
from workbench.trace import (
    AttentionCall,
    AttentionObserver,
    Stack,
    Structure,
    Text,
    observe_attention,
    structure_of,
)
from workbench.trace.encoding import Encoded, batches_of, encode_all, inputs_of
from workbench.trace.structure import call_model, require_distributions

__all__ = [
    "SURVEYED",
    "HeadStatistics",
    "attention_batches",
    "head_statistics",
    "reading_stack",
    "repetition_scores",
]

# Texts encoded at a time, and attention weights of one layer held at a time (4 MiB in float32).
_CHUNK = 64


_WEIGHTS = 2**20


@dataclass(frozen=True)
class HeadStatistics:
    """Statistics by name, each (layer, head); ``uniform`` is what attention to all visible keys alike gives.

    Visible keys are those of each layer's own mask (causal, window). Of models with a sink logit in the softmax,
    entropy, breadth and distance are of the weights divided by their sum, and "sink logit" is what the sum lacks.
    """

    model: str
    stack: Stack
    statistics: Mapping[str, Statistic]
    uniform: Mapping[str, Float[Array, " layer"]]
    texts: int
    tokens: int
    truncated: int  # tokens that did not fit into the model

    def __getitem__(self, name: str) -> Statistic:
        if name not in self.statistics:
            raise DataError(f"no statistic {name!r}; there are {', '.join(self.statistics)}")
        return self.statistics[name]

    def to_frame(self) -> pd.DataFrame:
        """One row for each layer and head; a column for each statistic and one for its standard error."""
        frames = [
            s.to_frame().rename(columns={"value": name, "standard_error": f"{name} (standard error)"})
            for name, s in self.statistics.items()
        ]
        return reduce(lambda left, right: left.merge(right, on=["layer", "head"]), frames)


def head_statistics(
    model: LoadedModel,
    texts: Sequence[Text],
    *,
    stack: Stack | None = None,
    rare_count: int = 1,
    max_length: int | None = None,
) -> HeadStatistics:
    """All statistics of every head's self-attention, averaged over the queries of ``texts``.

    Standard errors are clustered by text. Statistics whose tokens do not occur (no [CLS] in a decoder) are
    left out. Words that occur at most ``rare_count`` times in ``texts``, case ignored, are rare.

    Raises :class:`DataError` if there are no texts; :class:`TraceError` for attention that is not over tokens, or
    whose rows are no distributions by design (Linformer, Nyströmformer).
    """
    if not texts:
        raise DataError("no texts: give at least one")
    require_distributions(model.model, "head_statistics")
    structure, where, root = reading_stack(model, stack)
    counts = count_words(map(_text_of, texts))
    sums = HeadSums(where, structure.layers[where])
    tokens = truncated = 0
    with observe_attention(model, sums):
        for batch in attention_batches(model, texts, max_length, structure.heads[where]):
            sums.begin(_prepare(model, batch, counts, rare_count))
            call_model(root, **inputs_of(model, batch))
            tokens += sum(len(row.alignment) for row in batch)
            truncated += sum(row.truncated for row in batch)
    return HeadStatistics(model.name, where, *_named(sums, len(texts)), len(texts), tokens, truncated)


def _text_of(text: Text) -> str:
    if isinstance(text, Alignment):
        return text.text
    return text if isinstance(text, str) else " ".join(text)


def attention_batches(
    model: LoadedModel, texts: Sequence[Text], max_length: int | None, heads: int
) -> Iterator[list[Encoded]]:
    """Batches of like length out of each chunk of texts; the weights of one layer fit a small buffer."""
    for start in range(0, len(texts), _CHUNK):
        encoded = encode_all(model, texts[start : start + _CHUNK], max_length)
        longest = max(len(row.alignment) for row in encoded)
        for rows in batches_of(model, encoded, max(1, _WEIGHTS // (heads * longest**2))):
            yield [encoded[i] for i in rows]


def _prepare(
    model: LoadedModel, batch: Sequence[Encoded], counts: Counter[str], rare_count: int
) -> BatchOfTexts:
    classes = [token_classes(row.alignment, model.tokenizer, counts, rare_count) for row in batch]
    return BatchOfTexts.of([len(row.alignment) for row in batch], classes, model.device)


_SINK_MASS = 1e-2  # rows that lack more than rounding have a sink logit


def _named(sums: HeadSums, texts: int) -> tuple[dict[str, Statistic], dict[str, Float[Array, " layer"]]]:
    values, errors, uniform = sums.values, sums.standard_errors, sums.uniform_values
    sinks = values[..., list(NAMES).index(SINK)].max() > _SINK_MASS
    statistics = {
        name: Statistic(
            name=name,
            unit=unit,
            values=values[..., i],
            axes=("layer", "head"),
            standard_error=errors[..., i],
            count=texts,
            note=f"{meaning}; uniform attention gives {_range(uniform[:, i])}",
        )
        for i, (name, (unit, meaning)) in enumerate(NAMES.items())
        if (sinks if name == SINK else uniform[:, i].max() > 0)
    }
    return statistics, {name: uniform[:, i] for i, name in enumerate(NAMES) if name in statistics}


def _range(values: Float[Array, " layer"]) -> str:
    """One number, or the lowest and highest of layers that differ."""
    low, high = f"{values.min():.4g}", f"{values.max():.4g}"
    return low if low == high else f"{low} to {high}, by layer"


_NOTES = {
    "induction": "weight on the token that followed the earlier copy of the query",
    "duplicate token": "weight on the earlier copy of the query",
    "previous token": "weight on the token before the query",
}


# names of the statistics that a survey can hold, of one model or another
SURVEYED = (*NAMES, *(f"{name} score" for name in _NOTES))


def repetition_scores(
    model: LoadedModel, *, length: int = 50, sequences: int = 16, seed: int = 0
) -> dict[str, Statistic]:
    """Scores of every head of a decoder by name: "induction", "duplicate token" and "previous token".

    Each sequence is ``length`` random tokens followed by the same tokens again, behind a BOS where the
    tokenizer has one. Scores are mean weights over the queries of the second copy (after Olsson et al. 2022,
    "prefix matching score", who repeat 25 tokens four times and leave out the commonest and rarest; Wang et al. 2022
    on duplicate-token heads); errors are between sequences. Random tokens leave no other way to predict the second
    copy.

    Raises :class:`ModelError` for models that do not read from left to right, :class:`DataError` if two copies
    are too long for the model or there are fewer than two sequences.
    """
    model.require(Kind.CAUSAL, verb="repetition_scores")
    if length < 2 or sequences < 2 or 2 * length + 1 > model.max_length:
        raise DataError(
            f"length {length} and {sequences} sequences: length is 2 to {(model.max_length - 1) // 2} for this "
            "model, and there are at least 2 sequences"
        )
    structure = structure_of(model.model)
    observer = _Repetition(structure.main, structure.layers[structure.main], length)
    with observe_attention(model, observer):
        for ids in _random_tokens(model, length, sequences, seed).split(4):
            call_model(model.model.base_model, input_ids=ids, attention_mask=torch.ones_like(ids))
    return {
        name: Statistic(
            name=f"{name} score",
            unit="mass",
            values=np.stack([sums.values[:, i] for sums in observer.sums]),
            axes=("layer", "head"),
            standard_error=np.stack([sums.standard_errors[:, i] for sums in observer.sums]),
            count=sequences,
            note=f"{note}; {sequences} sequences of {length} random tokens twice, seed {seed}",
        )
        for i, (name, note) in enumerate(_NOTES.items())
    }


def _random_tokens(model: LoadedModel, length: int, sequences: int, seed: int) -> Tensor:
    """(sequence, token) ids: BOS where there is one, and the same random ordinary tokens twice."""
    special = set(model.tokenizer.all_special_ids)
    size = min(len(model.tokenizer), model.config.get_text_config().vocab_size)
    ordinary = np.array([i for i in range(size) if i not in special])
    once = np.random.default_rng(seed).choice(ordinary, (sequences, length))
    bos = model.tokenizer.bos_token_id
    start = np.full((sequences, 0 if bos is None else 1), bos or 0)
    return torch.tensor(np.concatenate([start, once, once], axis=1), device=model.device)


class _Repetition(AttentionObserver):
    """Sums, for each layer, of the weights on three diagonals below the second copy's queries."""

    def __init__(self, stack: Stack, layers: int, length: int) -> None:
        super().__init__(stack)
        self.length = length
        self.sums = [RatioSums() for _ in range(layers)]

    def observe(self, call: AttentionCall) -> None:
        """Add one layer of the batch."""
        second = call.weights[:, :, -self.length :].double()  # (B, H, length, T); T ends with the two copies
        first_query = call.weights.shape[-1] - self.length
        offsets: Mapping[str, int] = {
            "induction": -self.length + 1,
            "duplicate token": -self.length,
            "previous token": -1,
        }
        totals = [second.diagonal(first_query + offset, 2, 3).sum(-1) for offset in offsets.values()]
        self.sums[call.layer].add(torch.stack(totals, -1).cpu().numpy(), np.array(float(self.length)))


def reading_stack(model: LoadedModel, stack: str | None = None) -> tuple[Structure, Stack, nn.Module]:
    """The stack that reads plain texts, by default the only one or the encoder, and its module.

    Raises :class:`TraceError` for the decoder or cross-attention of an encoder-decoder, which need targets.
    """
    structure = structure_of(model.model)
    if not model.config.is_encoder_decoder:
        return structure, structure.stack(stack), model.model.base_model
    where = structure.attending(structure.stack(stack or Stack.ENCODER))
    if where is not Stack.ENCODER:
        raise TraceError(
            f"statistics over a corpus are of the encoder of {model.name}; for its {where} attention use "
            "workbench.trace with targets"
        )
    return structure, where, structure.root(model.model, where)
