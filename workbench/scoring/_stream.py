"""What every scorer shares: equal units once, longest first, in token-budget batches, halved when memory runs out."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from tqdm.auto import tqdm

from workbench.models import LoadedModel
from workbench.scoring._batches import is_out_of_memory, next_batch, token_budget
from workbench.scoring._lanes import lanes

__all__ = ["Stream", "by_group", "collect"]


class _Unit(Protocol):
    """What a batch is made of."""

    @property
    def length(self) -> int:
        """Tokens that the model reads."""

    def __hash__(self) -> int: ...


# Lanes wait for each other where a group of batches ends, and answers are handed on then: seldom, but soon.
_GROUP_SECONDS = 5.0

Unit = TypeVar("Unit", bound=_Unit)
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Stream(Generic[Unit, Answer]):
    """Answers of ``forward`` for any number of units. Batches are planned over all of them, done or not.

    Units go longest first and are padded to one length.
    """

    model: LoadedModel
    forward: Callable[[LoadedModel, list[Unit]], list[Answer]]
    batch_tokens: str | int = "auto"
    progress: bool = False

    def __call__(
        self, units: Sequence[Unit], done: Set[int] = frozenset()
    ) -> Iterator[list[tuple[int, Answer]]]:
        """Yield ``(position in units, answer)`` per batch; batches whose positions are all ``done`` are left out."""
        places: dict[Unit, list[int]] = defaultdict(list)
        for place, unit in enumerate(units):
            places[unit].append(place)
        unique = list(places)
        order = sorted(range(len(unique)), key=lambda i: (-unique[i].length, i))
        needed = {i for i in order if not done >= set(places[unique[i]])}
        total = sum(unique[i].length for i in needed)
        with tqdm(total=total, unit="tok", unit_scale=True, disable=not self.progress, leave=False) as bar:
            for batch, answers in self._run(unique, order, needed):
                bar.update(sum(unique[i].length for i in needed.intersection(batch)))
                yield [
                    (place, answer)
                    for i, answer in zip(batch, answers, strict=True)
                    for place in places[unique[i]]
                ]

    def _run(
        self, unique: list[Unit], order: list[int], needed: Set[int]
    ) -> Iterator[tuple[list[int], list[Answer]]]:
        budget = token_budget(self.model, self.batch_tokens)
        lengths = [unit.length for unit in unique]
        position, rounds = 0, 1
        with lanes(self.model) as side_by_side:
            while position < len(order):
                count = side_by_side.count * rounds
                planned, end = self._plan(lengths, order, position, budget, count, needed)
                started = time.monotonic()
                try:
                    answers = side_by_side.run(
                        self.forward, [[unique[i] for i in batch] for batch in planned]
                    )
                except RuntimeError as error:
                    if not is_out_of_memory(error) or max(map(len, planned)) == 1:
                        raise
                    budget = max(budget // 2, 1)
                    continue
                position = end
                if side_by_side.count > 1 and time.monotonic() - started < _GROUP_SECONDS / 2:
                    rounds *= 2
                yield from zip(planned, answers, strict=True)

    def _plan(
        self, lengths: list[int], order: list[int], position: int, budget: int, count: int, needed: Set[int]
    ) -> tuple[list[list[int]], int]:
        """Up to ``count`` batches that have something needed, and where the next plan starts."""
        planned: list[list[int]] = []
        while position < len(order) and len(planned) < count:
            batch = next_batch(lengths, order, position, budget)
            position += len(batch)
            if not needed.isdisjoint(batch):
                planned.append(batch)
        return planned, position


def collect(stream: Iterator[list[tuple[int, Answer]]], count: int) -> list[Answer]:
    """All answers of a stream over ``count`` units, in their order."""
    answers: dict[int, Answer] = {}
    for batch in stream:
        answers.update(batch)
    return [answers[i] for i in range(count)]


def by_group(
    stream: Callable[[list[Unit], Set[int]], Iterator[list[tuple[int, Answer]]]],
    groups: Sequence[Sequence[Unit]],
    done: Set[int] = frozenset(),
) -> Iterator[list[tuple[int, list[Answer]]]]:
    """Stream the units of all groups; ``(group, its answers)`` as soon as a group is complete.

    Groups in ``done`` may be left out.
    """
    owners = [number for number, group in enumerate(groups) for _ in group]
    starts = [0]
    for group in groups:
        starts.append(starts[-1] + len(group))
    waiting = [len(group) for group in groups]
    answers: dict[int, Answer] = {}
    skipped = {place for place, number in enumerate(owners) if number in done}
    for batch in stream([unit for group in groups for unit in group], skipped):
        ready = []
        for place, answer in batch:
            answers[place] = answer
            waiting[owners[place]] -= 1
            if not waiting[owners[place]]:
                ready.append(owners[place])
        yield [(n, [answers.pop(place) for place in range(*starts[n : n + 2])]) for n in ready]
