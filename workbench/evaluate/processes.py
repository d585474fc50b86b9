"""One evaluation over several processes, as ``torchrun`` or ``accelerate launch`` start them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
from torch import distributed

__all__ = ["Processes"]

Item = TypeVar("Item")
# How long the first to finish waits for the last: a shard may hold most of the work.
_PATIENCE = timedelta(days=7)


@dataclass(frozen=True)
class Processes:
    """This process's number (from 0) among ``count``."""

    rank: int = 0
    count: int = 1

    @classmethod
    def current(cls) -> Processes:
        """What the launcher's environment says; joins the others on first use (gloo: only small objects travel).

        With CUDA, each process takes the device of its place on its machine.
        """
        count = int(os.environ.get("WORLD_SIZE", "1"))
        if count < 2 or not distributed.is_available():
            return cls()
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
        if not distributed.is_initialized():
            distributed.init_process_group("gloo", timeout=_PATIENCE)
        return cls(distributed.get_rank(), distributed.get_world_size())

    def block(self, items: Sequence[Item]) -> list[Item]:
        """This process's contiguous part of ``items``; neighbours stay together, as they often begin alike."""
        edges = [len(items) * place // self.count for place in range(self.count + 1)]
        return list(items[edges[self.rank] : edges[self.rank + 1]])

    def from_first(self, value: str | None) -> str:
        """The first process's ``value``, in all of them."""
        box = [value]
        if self.count > 1:
            distributed.broadcast_object_list(box, src=0)
        assert box[0] is not None
        return box[0]

    def gather(self, value: Item) -> list[Item]:
        """Every process's ``value``, in order."""
        values: list[Item] = [value] * self.count
        if self.count > 1:
            distributed.all_gather_object(values, value)
        return values

    def wait(self) -> None:
        """Until all processes are here."""
        if self.count > 1:
            distributed.barrier()
