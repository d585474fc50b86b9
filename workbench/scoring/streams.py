"""Batches by token budget, two at a time on CPUs, equal units once, longest first: every scorer uses these streams."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

import torch
from tqdm.auto import tqdm

from workbench.errors import ConfigError
from workbench.models import LoadedModel
from workbench.models.batching import HeadOutput, HeadRow, head_outputs, padding_of
from workbench.models.dispatched import is_offloaded
from workbench.trace.observing import active

__all__ = [
    "Lanes",
    "Stream",
    "by_group",
    "collect",
    "head_scores",
    "is_out_of_memory",
    "lanes",
    "next_batch",
    "stream_heads",
    "token_budget",
]

# Beyond these a larger batch is no faster: activations of a CPU batch should stay in its core's cache.
_CPU_BUDGET = 512


_GPU_BUDGET = 65536


def token_budget(model: LoadedModel, batch_tokens: str | int = "auto") -> int:
    """Tokens of one forward pass, padding included; ``auto`` takes what memory and speed allow."""
    if batch_tokens != "auto":
        try:
            budget = int(batch_tokens)
        except ValueError:
            budget = 0
        if budget < 1:
            raise ConfigError(f"batch_tokens is {batch_tokens!r}; allowed: auto or a number of tokens from 1")
        return budget
    ceiling = _CPU_BUDGET if model.device.type == "cpu" else _GPU_BUDGET
    fits = _free_memory(model.device) // 2 // _bytes_per_token(model)
    return int(min(max(fits, 256), ceiling))


def _bytes_per_token(model: LoadedModel) -> int:
    """Activations alive at once, roughly: a few widths, the feed-forward, and float32 logits of scored tokens."""
    config = model.config.get_text_config()
    width = int(getattr(config, "hidden_size", 1024))
    inner = int(getattr(config, "intermediate_size", None) or 4 * width)
    itemsize = torch.empty((), dtype=model.dtype).element_size()
    return itemsize * (12 * width + 4 * inner) + 4 * int(config.vocab_size)


def _free_memory(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return 4 << 30


def next_batch(lengths: list[int], order: list[int], position: int, budget: int) -> list[int]:
    """From ``order[position:]`` (indices into ``lengths``, longest first) what fits ``budget`` padded tokens.

    At least one, however long.
    """
    longest = max(lengths[order[position]], 1)
    return order[position : position + max(budget // longest, 1)]


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether PyTorch ran out of memory, on a GPU or on the CPU."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


Batch = TypeVar("Batch")


Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Lanes:
    """``count`` batches run at once, on as many threads."""

    model: LoadedModel
    count: int
    pool: ThreadPoolExecutor | None

    def run(self, forward: Callable[[LoadedModel, Batch], Answer], batches: Sequence[Batch]) -> list[Answer]:
        """``forward(model, batch)`` for each batch, ``count`` at a time; the model is held for all of them."""
        if self.pool is None:
            return [forward(self.model, batch) for batch in batches]
        # The lock is held here, once: the passes below share the model on purpose.
        shared = replace(self.model, lock=nullcontext())
        threads = torch.get_num_threads()
        with self.model.lock:
            try:
                return list(self.pool.map(lambda batch: forward(shared, batch), batches))
            finally:
                torch.set_num_threads(threads)  # the pool's threads lowered it for the whole process


@contextmanager
def lanes(model: LoadedModel) -> Iterator[Lanes]:
    """Two lanes on a CPU with two threads or more, else one.

    One, too, while the caller's thread watches or changes the model: what it opened is for that thread; and of an
    offloaded model, whose weights come and go with each pass.
    """
    threads = torch.get_num_threads()
    if model.device.type != "cpu" or threads < 2 or active() or is_offloaded(model.model):
        yield Lanes(model, 1, None)
        return
    with ThreadPoolExecutor(2, initializer=torch.set_num_threads, initargs=(threads // 2,)) as pool:
        yield Lanes(model, 2, pool)


class _Unit(Protocol):
    """What a batch is made of."""

    @property
    def length(self) -> int:
        """Tokens that the model reads."""

    def __hash__(self) -> int: ...


# Lanes wait for each other where a group of batches ends, and answers are handed on then: seldom, but soon.
_GROUP_SECONDS = 5.0


Unit = TypeVar("Unit", bound=_Unit)


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


def stream_heads(
    model: LoadedModel,
    rows: Sequence[HeadRow],
    *,
    done: Set[int] = frozenset(),
    batch_tokens: str | int = "auto",
    progress: bool = False,
) -> Iterator[list[tuple[int, HeadOutput]]]:
    """Yield ``(place in rows, what the head gives that row alone)`` per batch; batches that are ``done`` are left out.

    See :func:`workbench.models.batching.head_outputs`.
    """
    padding_of(model)  # found before several batches run side by side
    yield from Stream(model, head_outputs, batch_tokens, progress)(rows, done)


def head_scores(
    model: LoadedModel, rows: Sequence[HeadRow], batch_tokens: str | int = "auto"
) -> list[HeadOutput]:
    """All of :func:`stream_heads`, in the order of ``rows``."""
    return collect(stream_heads(model, rows, batch_tokens=batch_tokens), len(rows))
