"""The engine: encode, drop duplicates, sort by length, batch by tokens, score, give back in any order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Set
from collections.abc import Sequence as Sequence_
from dataclasses import dataclass
from typing import Any

from workbench.choices import as_members
from workbench.models import Kind, LoadedModel
from workbench.scoring._encode import Boundary, FirstToken, encode_requests, resolve_first_token
from workbench.scoring._families import Family, Plan, plan_families, read_prefix, reads_prefixes
from workbench.scoring._forks import Fork, Grove, forward_groves, groves, reads_trees
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
    beyond rounding: sequences are padded on the right, where causal attention never looks. ``boundary`` says where a
    continuation begins (see :class:`Boundary`).
    """

    model: LoadedModel
    first_token: str = "auto"
    batch_tokens: str | int = "auto"
    progress: bool = False
    boundary: Boundary | str = Boundary.JOINT

    def __post_init__(self) -> None:
        as_members(self)
        self.model.require(Kind.CAUSAL, verb="scoring continuations")

    @property
    def policy(self) -> FirstToken:
        """The first-token policy in force."""
        return resolve_first_token(self.model.tokenizer, self.first_token)

    def encode(self, requests: Sequence_[Request]) -> list[Sequence]:
        """Token ids of each request and where its scored part starts."""
        return encode_requests(self.model, requests, self.policy, Boundary(self.boundary))

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
        if reads_trees(self.model):
            yield from self._stream_groves(forks, done)
        else:
            yield from Stream(self.model, _one_by_one, self.batch_tokens, self.progress)(forks, done)

    def _stream_groves(
        self, forks: Sequence_[Fork], done: Set[int], kept: Any | None = None
    ) -> Iterator[list[tuple[int, tuple[Score, ...]]]]:
        """Equal forks once, in trees of like size. ``kept``: keys and values of what stands before all of them."""
        places: dict[Fork, list[int]] = defaultdict(list)
        for place, fork in enumerate(forks):
            places[fork].append(place)
        planted = groves(list(places))
        finished = {i for i, grove in enumerate(planted) if all(done >= set(places[f]) for f in grove.forks)}

        def forward(model: LoadedModel, batch: list[Grove]) -> list[tuple[tuple[Score, ...], ...]]:
            return forward_groves(model, batch, kept)

        for trees in Stream(self.model, forward, self.batch_tokens, self.progress)(planted, finished):
            yield [
                (place, answer)
                for i, answers in trees
                for fork, answer in zip(planted[i].forks, answers, strict=True)
                for place in places[fork]
            ]

    def stream_families(
        self, sequences: list[Sequence], done: Set[int] = frozenset()
    ) -> Iterator[list[tuple[int, Score]]]:
        """As :meth:`stream_sequences`, reading once what sequences begin with in common.

        Sequences of one context (the choices of a question) are read as a fork; contexts with a long common
        beginning (few-shot prompts) are read after it, from its kept keys and values. The plan depends on the
        sequences alone, so what is computed does not depend on ``done``.
        """
        plan = (
            plan_families(sequences)
            if reads_trees(self.model)
            else Plan(tuple(range(len(sequences))), (), ())
        )
        alone = [sequences[place] for place in plan.alone]
        for batch in self.stream_sequences(alone, {i for i, place in enumerate(plan.alone) if place in done}):
            yield [(plan.alone[i], score) for i, score in batch]
        forks, families = list(plan.forks), list(plan.families)
        if not reads_prefixes(self.model):
            forks += [group for family in families for group in family.groups]
            families = []
        together = [Fork(tuple(sequences[place] for place in group)) for group in forks]
        finished = {i for i, group in enumerate(forks) if done >= set(group)}
        for trees in self.stream_forks(together, finished):
            yield [pair for i, scores in trees for pair in zip(forks[i], scores, strict=True)]
        for family in families:
            yield from self._stream_family(family, sequences, done)

    def _stream_family(
        self, family: Family, sequences: list[Sequence], done: Set[int]
    ) -> Iterator[list[tuple[int, Score]]]:
        finished = {i for i, group in enumerate(family.groups) if done >= set(group)}
        if len(finished) == len(family.groups):
            return
        kept = read_prefix(self.model, family.prefix)
        forks = [family.fork(group, sequences) for group in family.groups]
        for trees in self._stream_groves(forks, finished, kept):
            yield [pair for i, scores in trees for pair in zip(family.groups[i], scores, strict=True)]

    def score_families(self, sequences: list[Sequence]) -> list[Score]:
        """All scores, in the order of ``sequences``."""
        return collect(self.stream_families(sequences), len(sequences))

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
    boundary: str = "joint",
) -> list[Score]:
    """Log-probabilities of each request's continuation given its context; see :class:`Engine`."""
    return Engine(model, first_token, batch_tokens, progress, boundary).score(requests)
