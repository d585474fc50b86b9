"""The engine: encode, drop duplicates, sort by length, batch by tokens, score, give back in any order."""

from __future__ import annotations

from collections.abc import Iterator, Set
from collections.abc import Sequence as Sequence_
from dataclasses import dataclass

from workbench.models import Kind, LoadedModel
from workbench.scoring._encode import FirstToken, encode_requests, resolve_first_token
from workbench.scoring._forks import Fork, forward_forks, reads_trees
from workbench.scoring._forward import forward_batch
from workbench.scoring._records import Request, Score, Sequence
from workbench.scoring._stream import Stream, collect

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
        yield from Stream(self.model, forward_batch, self.batch_tokens, self.progress)(sequences, done)

    def stream_forks(
        self, forks: list[Fork], done: Set[int] = frozenset()
    ) -> Iterator[list[tuple[int, tuple[Score, ...]]]]:
        """As :meth:`stream_sequences`, for sequences that start alike: what they share is read once.

        Models that cannot read trees (see :func:`~workbench.scoring._forks.reads_trees`) read the members
        one by one, with the same scores.
        """
        trees = reads_trees(self.model)
        stream = Stream(
            self.model,
            forward_forks if trees else _one_by_one,
            self.batch_tokens,
            self.progress,
            neighbours=(lambda fork: fork.key) if trees else None,
        )
        yield from stream(forks, done)

    def score(self, requests: Sequence_[Request]) -> list[Score]:
        """All scores, in the order of ``requests``."""
        return collect(self.stream(requests), len(requests))

    def score_sequences(self, sequences: list[Sequence]) -> list[Score]:
        """All scores, in the order of ``sequences``."""
        return collect(self.stream_sequences(sequences), len(sequences))

    def score_forks(self, forks: list[Fork]) -> list[tuple[Score, ...]]:
        """All scores, in the order of ``forks`` and of their members."""
        return collect(self.stream_forks(forks), len(forks))


def _one_by_one(model: LoadedModel, forks: list[Fork]) -> list[tuple[Score, ...]]:
    scores = iter(forward_batch(model, [member for fork in forks for member in fork.members]))
    return [tuple(next(scores) for _ in fork.members) for fork in forks]


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
