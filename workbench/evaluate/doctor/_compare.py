"""When two results of one computation count as equal."""

from __future__ import annotations

import torch
from torch import Tensor

from workbench.evaluate.doctor._records import Finding, Status

__all__ = ["agree", "judge", "relative_tolerance"]

# Largest difference of two outputs that rounding explains, as a share of the largest output. Sums done in
# another order differ by an epsilon or so each, and a forward pass is a few hundred of them in a row: in
# float32 that is some 800 epsilons (2**-23). The half precisions round the residual stream once a layer
# instead of accumulating in it, so some ten epsilons (2**-10, 2**-7) are enough for them. The attention
# softmax of many models is float32 even in a float64 model, which bounds what float64 can promise.
_RELATIVE = {torch.float64: 1e-6, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 6e-2}


def relative_tolerance(dtype: torch.dtype) -> float:
    """Difference of two outputs allowed in ``dtype``, as a share of the largest absolute output."""
    return _RELATIVE.get(dtype, 1e-2)


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
