"""The position-wise feed-forward sub-layer, plain and gated."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from workbench.nn.residual import BranchInput, BranchOutput

__all__ = ["ACTIVATIONS", "GATED_NAMES", "FeedForward", "GatedFeedForward"]

Activation = Callable[[Tensor], Tensor]

ACTIVATIONS: dict[str, Activation] = {
    "relu": F.relu,
    "gelu": F.gelu,  # Hendrycks and Gimpel 2016, "GELUs", section 2: x Φ(x)
    "gelu_tanh": partial(F.gelu, approximate="tanh"),  # the same, the approximation with tanh
    "silu": F.silu,  # Elfwing et al. 2018, "Sigmoid-Weighted Linear Units", equation 7: x σ(x)
    "swish": F.silu,  # the same by its other name; Ramachandran et al. 2017, "Searching for Activation Functions"
    "elu": F.elu,
    "selu": F.selu,
    "sigmoid": torch.sigmoid,
    "softplus": F.softplus,
    "tanh": torch.tanh,
    "linear": nn.Identity(),
}

# Shazeer 2020, "GLU Variants Improve Transformer", equations 5 and 6: name of the variant -> its activation
GATED_NAMES = {
    "glu": "sigmoid",
    "liglu": "linear",
    "reglu": "relu",
    "geglu": "gelu",
    "geglu_tanh": "gelu_tanh",
    "swiglu": "silu",
}


class FeedForward(nn.Module):
    """W₂ φ(W₁ x); Vaswani et al. 2017, equation 2. (B, T, D) to (B, T, D) through (B, T, F)."""

    def __init__(
        self, *, width: int, size: int, activation: Activation, bias: bool = True, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.up = BranchInput(width, size, bias=bias)
        self.down = BranchOutput(size, width, bias=bias)
        self.activation = activation
        self.dropout = nn.Dropout(dropout)

    def forward(self, hidden: Tensor) -> Tensor:
        """Transform each position by itself."""
        return self.down(self.dropout(self.activation(self.up(hidden))))


class GatedFeedForward(FeedForward):
    """W₂ (φ(W x) ⊙ V x), with V ``up`` and W ``gate``; Shazeer 2020, equation 6. Shapes as above."""

    def __init__(
        self, *, width: int, size: int, activation: Activation, bias: bool = True, dropout: float = 0.0
    ) -> None:
        super().__init__(width=width, size=size, activation=activation, bias=bias, dropout=dropout)
        self.gate = BranchInput(width, size, bias=bias)

    def forward(self, hidden: Tensor) -> Tensor:
        """Transform each position by itself."""
        return self.down(self.dropout(self.activation(self.gate(hidden)) * self.up(hidden)))
