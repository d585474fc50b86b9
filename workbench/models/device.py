"""Where a model runs and in which precision."""

from __future__ import annotations

import torch

from workbench.errors import ModelError, did_you_mean

__all__ = ["fast_bfloat16", "resolve_device", "resolve_dtype"]

DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float64": torch.float64,
}


def resolve_device(device: str) -> torch.device:
    """``auto`` takes a GPU where there is one; raises :class:`ModelError` for a device that is not there."""
    if device == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        resolved = torch.device(device)
        torch.empty(0, device=resolved)
    except (RuntimeError, AssertionError, NotImplementedError):
        raise ModelError(
            f"device {device!r} is not available here; allowed: auto, cpu, cuda, cuda:N, mps"
        ) from None
    return resolved


def fast_bfloat16(device: torch.device) -> bool:
    """Whether matrix products in bfloat16 run faster than in float32 on ``device``."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type == "cpu":
        return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return device.type == "mps"


def resolve_dtype(dtype: str | torch.dtype, device: torch.device) -> torch.dtype:
    """``auto`` is bfloat16 where it is fast, else float32; raises :class:`ModelError` for unknown names."""
    if isinstance(dtype, torch.dtype):
        return dtype
    if dtype == "auto":
        return torch.bfloat16 if fast_bfloat16(device) else torch.float32
    if dtype not in DTYPES:
        raise ModelError(f"unknown dtype {dtype!r}; {did_you_mean(dtype, ['auto', *DTYPES])}")
    return DTYPES[dtype]
