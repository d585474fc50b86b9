"""Normalisation over the width of each token's vector."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["NORMS", "LayerNorm", "NoNorm", "RMSNorm"]


class LayerNorm(nn.LayerNorm):
    """Subtract the mean, divide by the standard deviation, scale and shift.

    Ba et al. 2016, "Layer Normalization", equation 3. (…, D) to (…, D).
    """

    def __init__(self, width: int, epsilon: float = 1e-5) -> None:
        super().__init__(width, eps=epsilon)


class RMSNorm(nn.RMSNorm):
    """Divide by the root mean square, and scale; no mean, no shift.

    Zhang and Sennrich 2019, "Root Mean Square Layer Normalization", equation 4. (…, D) to (…, D). In half
    precision the division is done in float32 and the scaling after rounding, as in the published models.
    """

    def __init__(self, width: int, epsilon: float = 1e-6) -> None:
        super().__init__(width, eps=epsilon)

    def forward(self, x: Tensor) -> Tensor:
        """``x`` with a root mean square of one, scaled."""
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        if wide.dtype == x.dtype:
            return super().forward(x)
        normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + (self.eps or 0.0))
        return self.weight * normed.to(x.dtype)


class NoNorm(nn.Module):
    """The identity, with the constructor of a norm: (…, D) to (…, D)."""

    def __init__(self, width: int, epsilon: float = 0.0) -> None:
        super().__init__()

    def forward(self, hidden: Tensor) -> Tensor:
        """``hidden``, unchanged."""
        return hidden


NORMS: dict[str, type[LayerNorm] | type[RMSNorm] | type[NoNorm]] = {
    "layer_norm": LayerNorm,
    "rms_norm": RMSNorm,
    "none": NoNorm,
}
