"""Batches side by side: on a CPU, two single-threaded passes beat one pass on two threads.

Element-wise work of a small batch stays in its core's cache, and no thread waits at the end of every operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TypeVar

import torch

from workbench.models import LoadedModel
from workbench.trace.observing import active

__all__ = ["Lanes", "lanes"]

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

    One, too, while the caller's thread watches or changes the model: what it opened is for that thread.
    """
    threads = torch.get_num_threads()
    if model.device.type != "cpu" or threads < 2 or active():
        yield Lanes(model, 1, None)
        return
    with ThreadPoolExecutor(2, initializer=torch.set_num_threads, initargs=(threads // 2,)) as pool:
        yield Lanes(model, 2, pool)
