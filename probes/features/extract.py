"""Stream sentences through a model once and keep the vectors of chosen places."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from tqdm.auto import tqdm

from probes._data import Place, Unit, Words, places_hash
from probes.features.capture import Run, capturing
from probes.features.policy import Policy, chosen_layers, resolve_pool
from probes.features.store import Features, Writer, writing
from workbench.errors import DataError
from workbench.models import LoadedModel
from workbench.shapes import Array
from workbench.text import align_words
from workbench.trace import Stack, structure_of
from workbench.trace._targets import decoder_batch, started
from workbench.trace.encoding import Encoded, encode_all, inputs_of

__all__ = ["cache_folder", "extract", "words_of"]

# Sentences tokenized, sorted by length and written together: memory does not grow with the corpus.
_WINDOW = 512
_BATCH_TOKENS = {"cpu": 1024, "cuda": 32768, "mps": 8192}


def cache_folder() -> Path:
    """Where stores are kept: ``features`` in ``WORKBENCH_CACHE`` or ``~/.cache/transformer-workbench``."""
    default = Path.home() / ".cache" / "transformer-workbench"
    return Path(os.environ.get("WORKBENCH_CACHE", default)) / "features"


def words_of(sentences: Sequence[str | Sequence[str] | Words]) -> list[Words]:
    """Sentences as :class:`Words`; a plain string is split at whitespace."""
    if isinstance(sentences, str):
        raise DataError(f"sentences must be a list, got one str {sentences[:40]!r}; write [sentence]")
    return [
        s if isinstance(s, Words) else Words(tuple(s.split() if isinstance(s, str) else s)) for s in sentences
    ]


def extract(
    model: LoadedModel,
    sentences: Sequence[str | Sequence[str] | Words],
    places: Sequence[Place] | None = None,
    *,
    layers: str | Sequence[int] = "all",
    pool: str = "auto",
    what: str = "residual",
    stack: str | None = None,
    out: Path | str | None = None,
    progress: bool = False,
) -> Features:
    """The vectors of ``places`` (default: every word of every sentence, in order) at each layer, from disk.

    One pass over the sentences writes a store, named by a hash of weights, data and settings, that is
    reused when it is there. See :class:`Policy` for ``pool`` and ``what``. An encoder-decoder is read at its
    encoder; with ``stack="decoder"`` both sides read the sentence. ``out`` is the store's folder (default:
    one in :func:`cache_folder`); one that was made from something else is refused.

    Raises:
        TaskError, TraceError: a layer or head out of range, a site that this architecture does not show.
        DataError: no sentence, or a store that cannot be read or written.
    """
    words = words_of(sentences)
    if not words:
        raise DataError("no sentences to extract features from: give at least one")
    wanted = list(places) if places is not None else _every_word(words)
    policy, where = _policy(model, wanted, words, layers, pool, what, stack)
    key = policy.key(model, places_hash(words, wanted))
    folder = Path(out) if out is not None else cache_folder() / key[:32]
    if (folder / "features.json").is_file():
        return Features.open(folder, key)
    with model.lock, writing(folder, len(wanted)) as writer, capturing(model, what, where) as run:
        job = _Job(model, words, wanted, policy, where, writer)
        job.stream(run, progress)
        writer.finish(Features(folder, key, model.name, policy.layers, policy, job.dropped, job.cut))
    return Features.open(folder, key)


def _every_word(words: Sequence[Words]) -> list[Place]:
    return [Place(s, w, w + 1) for s, sentence in enumerate(words) for w in range(len(sentence.forms))]


def _policy(
    model: LoadedModel,
    places: Sequence[Place],
    words: Sequence[Words],
    layers: str | Sequence[int],
    pool: str,
    what: str,
    stack: str | None,
) -> tuple[Policy, Stack]:
    structure = structure_of(model.model)
    both = model.config.is_encoder_decoder and stack is None
    where = Stack.ENCODER if both else structure.stack(stack)
    if not places:
        raise DataError("no places to extract features of: no sentence has a word")
    single = all(place.stop - place.start == 1 for place in places)
    pooled = resolve_pool(pool, model, Unit.WORD if single else Unit.SPAN)
    numbers = chosen_layers(layers if isinstance(layers, str) else tuple(layers), what, structure, where)
    return Policy(pooled, what, str(where), numbers), where


@dataclass
class _Job:
    """One extraction. ``dropped`` and ``cut`` count places that got no vector."""

    model: LoadedModel
    words: Sequence[Words]
    places: Sequence[Place]
    policy: Policy
    stack: Stack
    writer: Writer
    dropped: int = 0
    cut: int = 0

    def stream(self, run: Run, progress: bool) -> None:
        """Extract and write, a window of sentences at a time."""
        order = np.argsort([place.sentence for place in self.places], kind="stable")
        first = 0
        with tqdm(total=len(self.words), unit="sentence", disable=not progress, leave=False) as bar:
            for start in range(0, len(self.words), _WINDOW):
                stop = min(start + _WINDOW, len(self.words))
                last = first
                while last < len(order) and self.places[order[last]].sentence < stop:
                    last += 1
                if last > first:
                    self._window(run, order[first:last])
                first = last
                bar.update(stop - start)

    def _window(self, run: Run, rows: Array) -> None:
        """Features of the places numbered ``rows``, which lie in neighbouring sentences."""
        by_sentence: dict[int, list[int]] = {}
        for row in rows.tolist():
            by_sentence.setdefault(self.places[row].sentence, []).append(row)
        texts = {s: self._encoded(s) for s in by_sentence}
        found: dict[int, tuple[Array, Array]] = {}
        for batch in _batches({s: len(e.alignment) for s, e in texts.items() if e}, self.model.device.type):
            encoded = [e for s in batch if (e := texts[s]) is not None]
            spans = [
                (k, r, self._span(self._read(encoded[k]), self.places[r]))
                for k, s in enumerate(batch)
                for r in by_sentence[s]
            ]
            found.update(self._batch(run, encoded, spans))
        self.dropped += sum(len(by_sentence[s]) for s, e in texts.items() if e is None)
        self._write(found)

    def _encoded(self, sentence: int) -> Encoded | None:
        """The sentence as the model reads it, cut to its length; ``None`` if it has no tokens."""
        words = self.words[sentence]
        if not any(form.strip() for form in words.forms):
            return None
        alignment = align_words(words.forms, self.model.tokenizer, space_after=words.space_after)
        if not len(alignment):
            return None
        return encode_all(self.model, [alignment])[0]

    def _read(self, encoded: Encoded) -> Encoded:
        """What the probed stack reads: a decoder beside an encoder starts with a token of its own."""
        decoder = self.stack is Stack.DECODER and self.model.config.is_encoder_decoder
        return started(self.model, encoded) if decoder else encoded

    def _span(self, encoded: Encoded, place: Place) -> tuple[int, int]:
        """Tokens of a place, half-open; empty where it has none."""
        if self.policy.pool == "cls":
            return 0, 1
        spans = [s for s in encoded.alignment.token_spans[place.start : place.stop] if s[0] < s[1]]
        whole = len(spans) == place.stop - place.start or not encoded.cut
        if not spans or not whole:
            self.dropped += not encoded.cut
            self.cut += bool(encoded.cut)
            return 0, 0
        return spans[0][0], spans[-1][1]

    def _batch(
        self, run: Run, encoded: Sequence[Encoded], spans: Sequence[tuple[int, int, tuple[int, int]]]
    ) -> dict[int, tuple[Array, Array]]:
        """Vectors (L, D) and static embedding of each place, by its number."""
        kept = [(k, row, span) for k, row, span in spans if span[0] < span[1]]
        inputs = inputs_of(self.model, encoded)
        read = inputs["input_ids"]
        if self.stack is Stack.DECODER and self.model.config.is_encoder_decoder:
            inputs.update(decoder_batch(self.model, [self._read(e) for e in encoded]))
            read = inputs["decoder_input_ids"]
        width = read.shape[1]
        embedded = self.model.model.get_input_embeddings()(read)
        layers = run(inputs)
        chosen = layers if len(layers) == 1 else [layers[n] for n in self.policy.layers]
        if not kept:
            return {}
        take = _Taker(self.policy.pool, [(k, *span) for k, _, span in kept], width, self.model.device)
        vectors = torch.stack([take(layer) for layer in chosen]).float().cpu().numpy()
        static = take.mean(embedded).float().cpu().numpy()
        return {row: (vectors[:, i], static[i]) for i, (_, row, _) in enumerate(kept)}

    def _write(self, found: dict[int, tuple[Array, Array]]) -> None:
        """Write runs of neighbouring places together."""
        for run in _runs(sorted(found)):
            self.writer.valid[run] = True
            self.writer.write("values", run[0], np.stack([found[row][0] for row in run], axis=1))
            self.writer.write("static", run[0], np.stack([found[row][1] for row in run])[None])


class _Taker:
    """Picks or averages the tokens of each place out of a (B, T, D) tensor."""

    def __init__(
        self, pool: str, spans: Sequence[tuple[int, int, int]], width: int, device: torch.device
    ) -> None:
        self._pool = pool
        ends = {"first": lambda s: s[1], "cls": lambda s: s[1], "last": lambda s: s[2] - 1}
        if pool in ends:
            self._single = torch.tensor([s[0] * width + ends[pool](s) for s in spans], device=device)
        tokens = [(i, s[0] * width + t) for i, s in enumerate(spans) for t in range(s[1], s[2])]
        owner, flat = zip(*tokens, strict=True)
        self._owner = torch.tensor(owner, device=device)
        self._tokens = torch.tensor(flat, device=device)
        self._counts = torch.bincount(self._owner, minlength=len(spans))[:, None]

    def __call__(self, layer: Tensor) -> Tensor:
        """(place, D) by the policy."""
        if self._pool == "mean":
            return self.mean(layer)
        return layer.reshape(-1, layer.shape[-1]).index_select(0, self._single)

    def mean(self, layer: Tensor) -> Tensor:
        """(place, D): the mean over each place's tokens."""
        picked = layer.reshape(-1, layer.shape[-1]).index_select(0, self._tokens)
        total = picked.new_zeros(len(self._counts), picked.shape[1])
        return total.index_add_(0, self._owner, picked) / self._counts


def _batches(lengths: dict[int, int], device: str) -> Iterator[list[int]]:
    """Sentences of like length together, up to a number of padded tokens."""
    budget = _BATCH_TOKENS.get(device, 8192)
    batch: list[int] = []
    for sentence in sorted(lengths, key=lambda s: -lengths[s]):
        if batch and lengths[batch[0]] * (len(batch) + 1) > budget:
            yield batch
            batch = []
        batch.append(sentence)
    if batch:
        yield batch


def _runs(numbers: list[int]) -> Iterator[list[int]]:
    """Maximal runs of consecutive numbers."""
    run: list[int] = []
    for number in numbers:
        if run and number != run[-1] + 1:
            yield run
            run = []
        run.append(number)
    if run:
        yield run
