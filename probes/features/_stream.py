"""Sentences through a model, a window at a time, and the vectors of their places into a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from tqdm.auto import tqdm

from probes._data import Place, Words
from probes.features.capture import Run
from probes.features.policy import Policy
from probes.features.store import Writer
from workbench.models import LoadedModel
from workbench.models.dispatched import stack_layers
from workbench.scoring import Lanes, lanes
from workbench.shapes import Array
from workbench.text import align_words
from workbench.trace import Stack
from workbench.trace.decoder import decoder_batch, encode_targets, started
from workbench.trace.encoding import Encoded, encode_all, inputs_of
from workbench.trace.padding import padding_matters

__all__ = ["FeatureStream", "Taker", "batches_by_length", "runs"]


class Taker:
    """Picks or averages the tokens of each place; ``spans`` are (row of the batch, first token, end)."""

    def __init__(
        self, pool: str, spans: Sequence[tuple[int, int, int]], width: int, device: torch.device
    ) -> None:
        self._pool = pool
        row, start, stop = (torch.tensor(column, device=device) for column in zip(*spans, strict=True))
        first = row * width + start
        self._single = row * width + stop - 1 if pool == "last" else first
        self._counts = stop - start
        self._owner = torch.repeat_interleave(torch.arange(len(spans), device=device), self._counts)
        begins = self._counts.cumsum(0) - self._counts
        within = torch.arange(len(self._owner), device=device) - begins[self._owner]
        self._tokens = first[self._owner] + within

    def __call__(self, layer: Float[Tensor, "batch token width"]) -> Float[Tensor, "place width"]:
        """The vector of each place by the policy."""
        if self._pool == "mean":
            return self.mean(layer)
        return layer.reshape(-1, layer.shape[-1]).index_select(0, self._single)

    def mean(self, layer: Float[Tensor, "batch token width"]) -> Float[Tensor, "place width"]:
        """The mean over each place's tokens."""
        picked = layer.reshape(-1, layer.shape[-1]).index_select(0, self._tokens)
        total = picked.new_zeros(len(self._counts), picked.shape[1])
        return total.index_add_(0, self._owner, picked) / self._counts[:, None]


def batches_by_length(lengths: dict[int, int], budget: int, equal: bool = False) -> Iterator[list[int]]:
    """Sentences of like length (``equal``: of one) together, the longest first, up to ``budget`` padded tokens."""
    batch: list[int] = []
    for sentence in sorted(lengths, key=lambda s: -lengths[s]):
        full = bool(batch) and lengths[batch[0]] * (len(batch) + 1) > budget
        if full or (equal and batch and lengths[batch[0]] != lengths[sentence]):
            yield batch
            batch = []
        batch.append(sentence)
    if batch:
        yield batch


def runs(rows: Array, valid: Array) -> Iterator[tuple[int, int]]:
    """Positions (first, end) of maximal runs of valid places whose ``rows`` are consecutive numbers."""
    kept = np.flatnonzero(valid)
    breaks = np.flatnonzero((np.diff(kept) != 1) | (np.diff(rows[kept]) != 1)) + 1
    for part in np.split(kept, breaks):
        if len(part):
            yield int(part[0]), int(part[-1]) + 1


# Sentences tokenized, sorted by length and written together: memory does not grow with the corpus.
_SENTENCES_PER_WINDOW = 256
_BATCH_TOKENS = {"cpu": 512, "cuda": 32768}
_TOKENS_PER_BATCH_ELSEWHERE = 8192


@dataclass(frozen=True)
class _Text:
    """One sentence: what the model is given, and what the probed stack reads (the same but for decoders)."""

    source: Encoded
    read: Encoded


@dataclass(frozen=True)
class _Batch:
    """Texts that are read together; ``spans`` are (place in the window, row of the batch, first token, end)."""

    texts: list[_Text]
    spans: list[tuple[int, int, int, int]]


@dataclass
class FeatureStream:
    """One extraction. ``dropped`` and ``truncated`` count places that got no vector."""

    model: LoadedModel
    words: Sequence[Words]
    places: Sequence[Place]
    policy: Policy
    stack: Stack
    writer: Writer
    dropped: int = 0
    truncated: int = 0

    def run(self, run: Run, progress: bool) -> None:
        """Extract and write, a window of sentences at a time."""
        sentences = np.array([place.sentence for place in self.places])
        order = np.argsort(sentences, kind="stable")
        starts = range(0, len(self.words), _SENTENCES_PER_WINDOW)
        edges = np.searchsorted(sentences[order], [*starts, len(self.words)])
        bar = tqdm(total=len(self.words), unit="sentence", disable=not progress, leave=False)
        with bar, lanes(self.model) as side_by_side:
            for number, start in enumerate(starts):
                if edges[number] < edges[number + 1]:
                    self._window(run, side_by_side, order[edges[number] : edges[number + 1]])
                bar.update(min(_SENTENCES_PER_WINDOW, len(self.words) - start))

    def _window(self, run: Run, side_by_side: Lanes, rows: Array) -> None:
        """Features of the places numbered ``rows``, which lie in neighbouring sentences."""
        by_sentence: dict[int, list[int]] = {}
        for position, row in enumerate(rows.tolist()):
            by_sentence.setdefault(self.places[row].sentence, []).append(position)
        texts = {s: text for s in by_sentence if (text := self._text(s)) is not None}
        self.dropped += sum(len(found) for s, found in by_sentence.items() if s not in texts)
        budget = _BATCH_TOKENS.get(self.model.device.type, _TOKENS_PER_BATCH_ELSEWHERE)
        batches = [
            _Batch(
                [texts[s] for s in chosen],
                [
                    (position, k, *span)
                    for k, s in enumerate(chosen)
                    for position in by_sentence[s]
                    if (span := self._span(texts[s].read, self.places[rows[position]])) is not None
                ],
            )
            for chosen in batches_by_length(
                {s: len(t.read.alignment) for s, t in texts.items()},
                budget,
                padding_matters(self.model.model),
            )
        ]
        batches = [batch for batch in batches if batch.spans]
        window = _Window(len(rows))
        for start in range(0, len(batches), side_by_side.count):
            group = batches[start : start + side_by_side.count]
            for batch, (vectors, static) in zip(
                group, side_by_side.run(self._vectors(run), group), strict=True
            ):
                window.put([span[0] for span in batch.spans], vectors, static)
        window.write(self.writer, rows)

    def _text(self, sentence: int) -> _Text | None:
        """The sentence truncated to the model's length; ``None`` if it has no tokens."""
        words = self.words[sentence]
        if not any(form.strip() for form in words.forms):
            return None
        alignment = self.model.read_words(words.forms, words.space_after)
        if not len(alignment):
            return None
        encoded = encode_all(self.model, [alignment])[0]
        if not self._has_source:
            return _Text(encoded, encoded)
        own = align_words(
            words.forms, self.model.tokenizer, space_after=words.space_after, add_special_tokens=False
        )
        return _Text(encoded, started(self.model, encode_targets(self.model, [own])[0]))

    @property
    def _has_source(self) -> bool:
        """Whether the probed stack is a decoder beside an encoder, which starts with a token of its own."""
        return self.stack is Stack.DECODER and bool(self.model.config.is_encoder_decoder)

    def _span(self, encoded: Encoded, place: Place) -> tuple[int, int] | None:
        """Tokens of a place, half-open; ``None`` where it has none."""
        if self.policy.pool == "cls":
            return 0, 1
        spans = [s for s in encoded.alignment.token_spans[place.start : place.stop] if s[0] < s[1]]
        if spans and (len(spans) == place.stop - place.start or not encoded.truncated):
            return spans[0][0], spans[-1][1]
        self.dropped += not encoded.truncated
        self.truncated += bool(encoded.truncated)
        return None

    def _vectors(self, run: Run) -> Callable[[LoadedModel, _Batch], tuple[Array, Array]]:
        """A function from a batch to its places' vectors (L, P, D) and static embeddings (P, D)."""

        def vectors(model: LoadedModel, batch: _Batch) -> tuple[Array, Array]:
            inputs = inputs_of(model, [text.source for text in batch.texts])
            read = inputs["input_ids"]
            if self._has_source:
                inputs.update(decoder_batch(model, [text.read for text in batch.texts]))
                read = inputs["decoder_input_ids"]
            layers = run(inputs)
            take = Taker(self.policy.pool, [span[1:] for span in batch.spans], read.shape[1], model.device)
            with torch.inference_mode():
                found = stack_layers([take(layer) for layer in layers]).float().cpu().numpy()
                static = take.mean(model.model.get_input_embeddings()(read)).float().cpu().numpy()
            return found, static

        return vectors


class _Window:
    """The vectors of one window's places, in the places' order."""

    def __init__(self, places: int) -> None:
        self.valid = np.zeros(places, dtype=bool)
        self._values: Array | None = None
        self._static: Array | None = None

    def put(self, positions: list[int], vectors: Array, static: Array) -> None:
        """Vectors (L, P, D) and static embeddings (P, D) of some places."""
        if self._values is None or self._static is None:
            count = len(self.valid)
            self._values = np.empty((len(vectors), count, vectors.shape[2]), dtype=np.float32)
            self._static = np.empty((count, static.shape[1]), dtype=np.float32)
        self._values[:, positions] = vectors
        self._static[positions] = static
        self.valid[positions] = True

    def write(self, writer: Writer, rows: Array) -> None:
        """Write runs of neighbouring places together; ``rows`` number the window's places in the store."""
        if self._values is None or self._static is None:
            return
        for first, last in runs(rows, self.valid):
            start = int(rows[first])
            writer.valid[start : start + last - first] = True
            writer.write("values", start, self._values[:, first:last])
            writer.write("static", start, self._static[None, first:last])
