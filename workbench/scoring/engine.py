"""The engine: encode, drop duplicates, sort by length, batch by tokens, score, give back in any order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Set
from collections.abc import Sequence as Sequence_
from dataclasses import dataclass

from tqdm.auto import tqdm

from workbench.models import Kind, LoadedModel
from workbench.scoring._batches import is_out_of_memory, next_batch, token_budget
from workbench.scoring._encode import FirstToken, encode_requests, resolve_first_token
from workbench.scoring._forward import forward_batch
from workbench.scoring._records import Request, Score, Sequence

__all__ = ["Engine", "score"]


@dataclass(frozen=True)
class Engine:
    """Scores requests with one model under one stated policy.

    ``first_token`` says what the first token of a text without context is predicted from (see
    :class:`FirstToken`; ``auto`` is resolved per tokenizer, :attr:`policy` is what it became).
    ``batch_tokens`` is the budget of one forward pass, padding included. Scores do not depend on it
    beyond rounding: sequences are padded on the right, where causal attention never looks.
    """

    model: LoadedModel
    first_token: str = "auto"
    batch_tokens: str | int = "auto"
    progress: bool = False

    def __post_init__(self) -> None:
        self.model.require(Kind.CAUSAL, verb="scoring continuations")

    @property
    def policy(self) -> FirstToken:
        """The first-token policy in force."""
        return resolve_first_token(self.model.tokenizer, self.first_token)

    def encode(self, requests: Sequence_[Request]) -> list[Sequence]:
        """Token ids of each request and where its scored part starts."""
        return encode_requests(self.model, requests, self.policy)

    def stream(
        self, requests: Sequence_[Request], done: Set[int] = frozenset()
    ) -> Iterator[list[tuple[int, Score]]]:
        """Yield ``(position in requests, score)`` for each finished batch, longest requests first.

        A batch whose positions are all in ``done`` is left out. Batches are planned over all requests, so
        those that are computed are the same whatever was done before, and so are their scores.
        """
        yield from self.stream_sequences(self.encode(requests), done)

    def stream_sequences(
        self, sequences: list[Sequence], done: Set[int] = frozenset()
    ) -> Iterator[list[tuple[int, Score]]]:
        """As :meth:`stream`, for requests that are token ids already. Equal sequences are computed once."""
        places: dict[Sequence, list[int]] = defaultdict(list)
        for place, sequence in enumerate(sequences):
            places[sequence].append(place)
        unique = list(places)
        order = sorted(range(len(unique)), key=lambda i: (-unique[i].length, i))
        needed = {i for i in order if not done >= set(places[unique[i]])}
        total = sum(unique[i].length for i in needed)
        with tqdm(total=total, unit="tok", unit_scale=True, disable=not self.progress, leave=False) as bar:
            for batch, scores in self._run(unique, order, needed):
                bar.update(sum(unique[i].length for i in needed.intersection(batch)))
                yield [
                    (place, score)
                    for i, score in zip(batch, scores, strict=True)
                    for place in places[unique[i]]
                ]

    def _run(
        self, unique: list[Sequence], order: list[int], needed: Set[int]
    ) -> Iterator[tuple[list[int], list[Score]]]:
        """Forward passes over ``order``; a batch that runs out of memory is tried again in halves."""
        budget = token_budget(self.model, self.batch_tokens)
        position = 0
        while position < len(order):
            batch = next_batch(unique, order, position, budget)
            if needed.isdisjoint(batch):
                position += len(batch)
                continue
            try:
                scores = forward_batch(self.model, [unique[i] for i in batch])
            except RuntimeError as error:
                if not is_out_of_memory(error) or len(batch) == 1:
                    raise
                budget = max(budget // 2, 1)
                continue
            position += len(batch)
            yield batch, scores

    def score(self, requests: Sequence_[Request]) -> list[Score]:
        """All scores, in the order of ``requests``."""
        return self._collect(self.stream(requests), len(requests))

    def score_sequences(self, sequences: list[Sequence]) -> list[Score]:
        """All scores, in the order of ``sequences``."""
        return self._collect(self.stream_sequences(sequences), len(sequences))

    @staticmethod
    def _collect(stream: Iterator[list[tuple[int, Score]]], count: int) -> list[Score]:
        scores: dict[int, Score] = {}
        for batch in stream:
            scores.update(batch)
        return [scores[i] for i in range(count)]


def score(
    model: LoadedModel,
    requests: Sequence_[Request],
    *,
    first_token: str = "auto",
    batch_tokens: str | int = "auto",
    progress: bool = False,
) -> list[Score]:
    """Log-probabilities of each request's continuation given its context; see :class:`Engine`."""
    return Engine(model, first_token, batch_tokens, progress).score(requests)
