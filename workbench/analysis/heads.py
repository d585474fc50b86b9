"""What each head does over a corpus, in memory for layers × heads numbers: ``head_statistics``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import pandas as pd

from workbench.analysis._head_sums import NAMES, BatchOfTexts, HeadSums
from workbench.analysis._reading import reading_stack
from workbench.analysis._token_classes import count_words, token_classes
from workbench.errors import DataError
from workbench.models import LoadedModel
from workbench.statistics import Statistic
from workbench.text import Alignment
from workbench.trace import Stack, Text, observe_attention
from workbench.trace.encoding import Encoded, batches_of, encode_all, inputs_of
from workbench.trace.structure import call_model

__all__ = ["HeadStatistics", "head_statistics"]

# Texts encoded at a time, and attention weights of one layer held at a time (4 MiB in float32).
_CHUNK = 64
_WEIGHTS = 2**20


@dataclass(frozen=True)
class HeadStatistics:
    """Statistics by name, each (layer, head); ``uniform`` is what attention to all visible keys alike gives."""

    model: str
    stack: Stack
    statistics: Mapping[str, Statistic]
    uniform: Mapping[str, float]
    texts: int
    tokens: int
    cut: int  # tokens that did not fit into the model

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

    Raises :class:`DataError` if there are no texts; :class:`TraceError` for attention that is not over tokens.
    """
    if not texts:
        raise DataError("no texts: give at least one")
    structure, where, root = reading_stack(model, stack)
    causal = where is Stack.DECODER
    counts = count_words(map(_text_of, texts))
    sums = HeadSums(where, structure.layers[where], causal)
    tokens = cut = 0
    with observe_attention(model, sums):
        for batch in _batches(model, texts, max_length, structure.heads[where]):
            sums.begin(_prepare(model, batch, counts, rare_count, causal))
            call_model(root, **inputs_of(model, batch))
            tokens += sum(len(row.alignment) for row in batch)
            cut += sum(row.cut for row in batch)
    return HeadStatistics(model.name, where, *_named(sums), len(texts), tokens, cut)


def _text_of(text: Text) -> str:
    if isinstance(text, Alignment):
        return text.text
    return text if isinstance(text, str) else " ".join(text)


def _batches(
    model: LoadedModel, texts: Sequence[Text], max_length: int | None, heads: int
) -> Iterator[list[Encoded]]:
    """Batches of like length out of each chunk of texts; the weights of one layer fit a small buffer."""
    for start in range(0, len(texts), _CHUNK):
        encoded = encode_all(model, texts[start : start + _CHUNK], max_length)
        longest = max(len(row.alignment) for row in encoded)
        for rows in batches_of(model, encoded, max(1, _WEIGHTS // (heads * longest**2))):
            yield [encoded[i] for i in rows]


def _prepare(
    model: LoadedModel, batch: Sequence[Encoded], counts: Counter[str], rare_count: int, causal: bool
) -> BatchOfTexts:
    classes = [token_classes(row.alignment, model.tokenizer, counts, rare_count) for row in batch]
    return BatchOfTexts.of([len(row.alignment) for row in batch], classes, causal, model.device)


def _named(sums: HeadSums) -> tuple[dict[str, Statistic], dict[str, float]]:
    values, errors, uniform = sums.values, sums.standard_errors, sums.uniform.values[0]
    statistics = {
        name: Statistic(
            name=name,
            unit=unit,
            values=values[..., i],
            axes=("layer", "head"),
            standard_error=errors[..., i],
            note=f"{meaning}; uniform attention gives {uniform[i]:.4g}",
        )
        for i, (name, (unit, meaning)) in enumerate(NAMES.items())
        if uniform[i] > 0
    }
    return statistics, {name: float(uniform[i]) for i, name in enumerate(NAMES) if name in statistics}
