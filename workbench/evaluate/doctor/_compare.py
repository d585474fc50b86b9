"""When two results of one computation count as equal."""

from __future__ import annotations

import torch
from torch import Tensor

from workbench.evaluate.doctor._records import Finding, Status
from workbench.models.batching import relative_tolerance

__all__ = ["agree", "judge"]


def agree(reference: Tensor, other: Tensor, dtype: torch.dtype, detail: str) -> Finding:
    """Hold the largest absolute difference of two equally shaped outputs against what ``dtype`` explains."""
    largest = float(reference.abs().max())
    difference = float((reference - other).abs().max())
    share = relative_tolerance(dtype)
    return judge(
        difference, share * largest, f"{detail}; tolerance {share:g} of the largest output {largest:.3g}"
    )


def judge(value: float, tolerance: float, detail: str) -> Finding:
    """Pass if ``value`` is at most ``tolerance``; a value that is not finite fails and is called by its name."""
    if value != value or value == float("inf"):
        return Finding(Status.FAIL, value, None, "the model gives NaN or infinite outputs")
    return Finding(Status.PASS if value <= tolerance else Status.FAIL, value, tolerance, detail)
