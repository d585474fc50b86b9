"""Likelihood of a target given a source, under an encoder-decoder."""

from __future__ import annotations

from collections.abc import Iterator, Set
from collections.abc import Sequence as Sequence_
from dataclasses import dataclass

import torch

from workbench.errors import DataError, ModelError, TooLong
from workbench.models import Kind, LoadedModel
from workbench.models.measured import longest_input
from workbench.scoring._forward import project_only, target_statistics
from workbench.scoring._requests import Request, Score, chat_ids, encode_texts
from workbench.scoring.streams import Stream, collect
from workbench.trace.decoder import decoder_prefix
from workbench.trace.padding import together

__all__ = ["Seq2SeqEngine", "Translation"]


@dataclass(frozen=True)
class Translation:
    """Ids of a source (with the tokenizer's special tokens) and of a target, all of whose ids are scored.

    ``prefix`` is what the decoder reads before the target; see :func:`~workbench.trace.decoder.decoder_prefix`.
    """

    source: tuple[int, ...]
    target: tuple[int, ...]
    prefix: tuple[int, ...]

    @property
    def read(self) -> tuple[int, ...]:
        """What the decoder reads: the target's last token is only predicted."""
        return (*self.prefix, *self.target[:-1])

    @property
    def length(self) -> int:
        """Tokens that encoder and decoder read."""
        return len(self.source) + len(self.read)


@dataclass(frozen=True)
class Seq2SeqEngine:
    """Scores targets: the context of a request is what the encoder reads, the continuation the target.

    The decoder starts from :func:`~workbench.trace.decoder.decoder_prefix`, which is not scored; no end token is
    added to the target, so a target may be the start of a longer one.
    """

    model: LoadedModel
    batch_tokens: str | int = "auto"
    progress: bool = False

    def __post_init__(self) -> None:
        self.model.require(Kind.SEQ2SEQ, verb="scoring targets")
        if self.model.looks_ahead:  # ProphetNet's predicting streams mix positions
            raise ModelError(
                f"{self.model.name} ({type(self.model.model).__name__}): what its decoder predicts changes with later "
                "tokens of the target, so that targets have no scores; use another encoder-decoder"
            )
        decoder_prefix(self.model)  # refuses a model without a start token

    def encode(self, requests: Sequence_[Request]) -> list[Translation]:
        """Ids; raises :class:`~workbench.errors.DataError` for an empty target, and for one or a source too long."""
        targets = encode_texts(self.model.tokenizer, [request.continuation for request in requests])
        if not requests:
            return []
        contexts = [request.context for request in requests]
        if self.model.prompt.chat:
            sources = [chat_ids(self.model, context) for context in contexts]
        else:
            sources = self.model.tokenizer(contexts, verbose=False).input_ids
        for request, target in zip(requests, targets, strict=True):
            if not target:
                raise DataError(f"nothing to score in target {request.continuation[:40]!r}")
        prefix = decoder_prefix(self.model)
        pairs = [Translation(tuple(s), tuple(t), prefix) for s, t in zip(sources, targets, strict=True)]
        for request, pair in zip(requests, pairs, strict=True):
            self._check("source", request.context, len(pair.source), decoder=False)
            self._check("target", request.continuation, len(pair.read), decoder=True)
        return pairs

    def _check(self, side: str, text: str, length: int, *, decoder: bool) -> None:
        """Refuse what has no position in the model; without a table of positions no length is wrong."""
        longest = longest_input(self.model.model, decoder=decoder)
        if longest is not None and length > longest:
            raise TooLong(
                f"{side} {text[:40]!r}... has {length} tokens to read; {self.model.name} reads at most {longest}: "
                "shorten it"
            )

    def stream(
        self, requests: Sequence_[Request], done: Set[int] = frozenset()
    ) -> Iterator[list[tuple[int, Score]]]:
        """Yield ``(position in requests, score)`` for each finished batch."""
        stream = Stream(self.model, _forward, self.batch_tokens, self.progress)
        yield from stream(self.encode(requests), done)

    def score(self, requests: Sequence_[Request]) -> list[Score]:
        """All scores, in the order of ``requests``."""
        return collect(self.stream(requests), len(requests))


def _forward(model: LoadedModel, batch: list[Translation]) -> list[Score]:
    """Scores of targets, those that may be padded to one length in one pass."""
    scores: dict[int, Score] = {}
    for places in together(model.model, [(len(t.source), len(t.read)) for t in batch]):
        scores.update(zip(places, _one_pass(model, [batch[place] for place in places]), strict=True))
    return [scores[place] for place in range(len(batch))]


def _one_pass(model: LoadedModel, batch: list[Translation]) -> list[Score]:
    """One pass; padding stands on the right of sources (masked) and targets (never looked at)."""
    reads, writes = max(len(t.source) for t in batch), max(len(t.read) for t in batch)
    padding = model.tokenizer.pad_token_id or 0
    as_tensor = lambda values: torch.tensor(values, device=model.device)  # noqa: E731
    inputs = {
        "input_ids": as_tensor([[*t.source, *[padding] * (reads - len(t.source))] for t in batch]),
        "attention_mask": as_tensor([[1] * len(t.source) + [0] * (reads - len(t.source)) for t in batch]),
        "decoder_input_ids": as_tensor([[*t.read, *[padding] * (writes - len(t.read))] for t in batch]),
    }
    first = len(batch[0].prefix) - 1  # the prefix's last token predicts the target's first
    positions = as_tensor(
        [row * writes + i for row, t in enumerate(batch) for i in range(first, first + len(t.target))]
    )
    targets = as_tensor([token for t in batch for token in t.target])
    shape = inputs["decoder_input_ids"].shape
    with model.lock, torch.inference_mode(), project_only(model.model, positions, shape) as projected:
        logits = projected.chosen(model.model(**inputs, use_cache=False).logits)  # (scored, V)
    columns = [c.split([len(t.target) for t in batch]) for c in target_statistics(logits, targets)]
    return [
        Score(t.target, tuple(p.tolist()), tuple(g.tolist()), tuple(r.tolist()))
        for t, p, g, r in zip(batch, *columns, strict=True)
    ]
