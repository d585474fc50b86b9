"""How a sub-layer joins the residual stream: where the norm stands, and how the update is scaled."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = [
    "PLACEMENTS",
    "SCALES",
    "BranchInput",
    "BranchOutput",
    "PostNorm",
    "PreNorm",
    "Residual",
    "SandwichNorm",
]

SCALES = ("none", "rezero", "fixup")


class BranchInput(nn.Linear):
    """A first matrix of a residual branch; its initial weights may be chosen apart, too."""


class BranchOutput(nn.Linear):
    """The last matrix of a residual branch, a type of its own because its initial weights are chosen apart."""


class Residual(nn.Module):
    """Wraps a sub-layer: ``update = f(enter(x))``, then ``x = leave(x, update)``; all (B, T, D).

    ``scale`` multiplies the update by a learned number: ``rezero`` starts it at 0 (Bachlechner et al. 2020,
    "ReZero is All You Need", equation 1), ``fixup`` at 1 with the sub-layer's output weights at 0 (Zhang et
    al. 2019, "Fixup Initialization", section 3); ``none`` has no such number.
    """

    def __init__(self, *, norm: nn.Module, dropout: float = 0.0, scale: str = "none") -> None:
        super().__init__()
        self.norm = norm
        self.dropout = nn.Dropout(dropout)
        self.initial_scale = 0.0 if scale == "rezero" else 1.0
        self.scale = None if scale == "none" else nn.Parameter(torch.tensor(self.initial_scale))

    def enter(self, hidden: Tensor) -> Tensor:
        """What the sub-layer sees."""
        raise NotImplementedError

    def leave(self, hidden: Tensor, update: Tensor) -> Tensor:
        """The residual stream after the sub-layer."""
        raise NotImplementedError

    def scaled(self, update: Tensor) -> Tensor:
        """The update as it is added: dropped out and scaled."""
        update = self.dropout(update)
        return update if self.scale is None else self.scale * update


class PostNorm(Residual):
    """norm(x + f(x)); Vaswani et al. 2017, section 3.1."""

    def enter(self, hidden: Tensor) -> Tensor:
        """The stream itself."""
        return hidden

    def leave(self, hidden: Tensor, update: Tensor) -> Tensor:
        """The normalised sum."""
        return self.norm(hidden + self.scaled(update))


class PreNorm(Residual):
    """x + f(norm(x)); Xiong et al. 2020, "On Layer Normalization in the Transformer Architecture"."""

    def enter(self, hidden: Tensor) -> Tensor:
        """The normalised stream."""
        return self.norm(hidden)

    def leave(self, hidden: Tensor, update: Tensor) -> Tensor:
        """The sum."""
        return hidden + self.scaled(update)


class SandwichNorm(PreNorm):
    """x + norm'(f(norm(x))); Ding et al. 2021, "CogView", section 2.4."""

    def __init__(
        self, *, norm: nn.Module, outer_norm: nn.Module, dropout: float = 0.0, scale: str = "none"
    ) -> None:
        super().__init__(norm=norm, dropout=dropout, scale=scale)
        self.outer_norm = outer_norm

    def leave(self, hidden: Tensor, update: Tensor) -> Tensor:
        """The sum of the stream and the normalised update."""
        return hidden + self.scaled(self.outer_norm(update))


PLACEMENTS = ("post", "pre", "sandwich")
