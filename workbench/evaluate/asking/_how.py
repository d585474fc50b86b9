"""How a model is asked."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["How"]


@dataclass(frozen=True)
class How:
    """The scorer's policy for first tokens, tokens of a forward pass, a bar or none, the seed of what is sampled.

    ``boundary`` says where continuations begin; see :class:`workbench.scoring.Boundary`.
    """

    first_token: str = "auto"
    batch_tokens: str | int = "auto"
    progress: bool = False
    seed: int = 0
    boundary: str = "joint"
