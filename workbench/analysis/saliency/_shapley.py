"""Shapley values from all subsets of a few parts, and how many passes KernelSHAP takes for many."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from workbench.analysis.saliency._methods import SaliencyOptions

__all__ = ["enumerates", "shapley_passes", "shapley_values", "surrogate_samples"]

MOST_SUBSETS = 1024


def surrogate_samples(parts: int) -> int:
    """Twice the number of parts and some, as SHAP's own default is built."""
    return 2 * parts + 256


def enumerates(parts: int, options: SaliencyOptions) -> bool:
    """Whether all subsets of ``parts`` are tried: no more than the samples asked for, or a thousand by default."""
    return 2**parts <= (options.samples or MOST_SUBSETS)


def shapley_values(parts: int, value: Callable[[Tensor], Tensor], at_once: int) -> Tensor:
    """Exact Shapley values (part,) from all subsets, of which ``value`` takes some as rows of 0 and 1 (n, part).

    Each is the mean over sizes, and over the others' subsets of that size, of what the part adds (Shapley 1953).
    """
    numbers = torch.arange(2**parts)
    members = (numbers[:, None] >> torch.arange(parts)) & 1  # (subset, part)
    worth = torch.cat([value(rows.float()).double().cpu() for rows in members.split(at_once)])
    sizes = members.sum(1)
    weights = torch.tensor([1 / (parts * math.comb(parts - 1, size)) for size in range(parts)]).double()
    found = []
    for part in range(parts):
        without = numbers[members[:, part] == 0]
        gains = worth[without + 2**part] - worth[without]
        found.append((weights[sizes[without]] * gains).sum())
    return torch.stack(found)


def shapley_passes(parts: int, options: SaliencyOptions) -> int:
    """Forward passes of KernelSHAP."""
    return 2**parts if enumerates(parts, options) else options.samples or surrogate_samples(parts)
