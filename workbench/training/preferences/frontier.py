"""Reward against distance: what a policy gained, and how far it went from its reference for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workbench.drawn import Drawn
from workbench.errors import DataError
from workbench.training.progress import read_log

__all__ = ["Frontier"]

_COLUMNS = ("step", "kl", "reward", "gold_reward", "length", "entropy")


@dataclass(frozen=True)
class Frontier(Drawn):
    """Points of a training run in order: mean KL to the reference and mean reward of the replies of some steps.

    Columns of ``rows``: ``step`` (the last of those that were averaged), ``kl`` (nats a reply, estimator k1),
    ``reward``, ``gold_reward`` where one was logged,
    ``length`` (tokens), ``entropy`` (nats a token). A gold reward that falls
    while the reward goes on rising is over-optimisation (Gao et al. 2023, "Scaling laws for reward model
    overoptimization", figure 1, which draws it over the square root of KL).
    """

    rows: tuple[Mapping[str, float], ...]
    name: str = "reward"
    drawn_by = "frontier_plot"

    @classmethod
    def of_log(
        cls, log: Path | Sequence[Mapping[str, Any]], points: int = 24, name: str = "reward"
    ) -> Frontier:
        """Averages over equal stretches of a ``log.jsonl``, at most ``points`` of them.

        Raises :class:`~workbench.errors.DataError` for the log of a method that writes no replies.
        """
        records = read_log(log) if isinstance(log, Path) else log
        steps = [record for record in records if "kl" in record and "reward" in record]
        if not steps:
            raise DataError(
                f"{log if isinstance(log, Path) else 'the log'} has no rewards; it is not of rloo or grpo"
            )
        frame = pd.DataFrame(steps)
        frame = frame[[column for column in _COLUMNS if column in frame]]
        stretch = np.arange(len(frame)) * min(points, len(frame)) // len(frame)
        parts = frame.groupby(stretch)
        means = parts.mean()
        means["step"] = parts["step"].max()
        return cls(tuple({str(k): v for k, v in row.items()} for row in means.to_dict("records")), name)

    def to_frame(self) -> pd.DataFrame:
        """One row a point."""
        return pd.DataFrame(list(self.rows))
