"""How much memory was needed."""

from __future__ import annotations

import resource
import sys

import torch

__all__ = ["peak_mib"]


def peak_mib(device: torch.device) -> float:
    """The most memory used so far, in MiB: of the card, or of this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10
