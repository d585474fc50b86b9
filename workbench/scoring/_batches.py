"""Batches by token budget: as many sequences as fit, of similar length."""

from __future__ import annotations

import os

import torch

from workbench.errors import ConfigError
from workbench.models import LoadedModel

__all__ = ["is_out_of_memory", "next_batch", "token_budget"]

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
