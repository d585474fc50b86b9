"""Perplexities from summed log-likelihoods."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.evaluate.metrics._metric import OfSums
from workbench.shapes import Array

__all__ = ["PERPLEXITIES"]


def _parts(unit: str) -> Any:
    return lambda examples: examples[["log_probability", unit]].to_numpy(float)


def _perplexity(sums: Array) -> Any:
    with np.errstate(over="ignore"):
        return np.exp(-sums[..., 0] / sums[..., 1])


def _bits(sums: Array) -> Any:
    return -sums[..., 0] / sums[..., 1] / np.log(2)


PERPLEXITIES = (
    *(
        OfSums(
            f"{name}_perplexity",
            _parts(unit),
            _perplexity,
            f"exp of the mean loss per {name}",
            higher_is_better=False,
        )
        for name, unit in (("token", "tokens"), ("word", "words"), ("byte", "bytes"))
    ),
    OfSums("bits_per_byte", _parts("bytes"), _bits, "mean loss per byte in bits", higher_is_better=False),
)
