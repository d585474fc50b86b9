"""Log-likelihood scoring: the one batched engine behind every evaluation that asks a model how likely text is."""

from __future__ import annotations

from workbench.scoring._encode import FirstToken, resolve_first_token
from workbench.scoring._forks import Fork, from_difference
from workbench.scoring._records import Request, RollingScore, Score, Sequence
from workbench.scoring.engine import Engine, score
from workbench.scoring.rolling import score_rolling

__all__ = [
    "Engine",
    "FirstToken",
    "Fork",
    "Request",
    "RollingScore",
    "Score",
    "Sequence",
    "from_difference",
    "resolve_first_token",
    "score",
    "score_rolling",
]
