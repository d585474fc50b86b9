"""Where in its layers a model comes to the last token of a text: log-probability and rank by the logit lens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from workbench.analysis.lens import continuation_trajectory
from workbench.errors import DataError
from workbench.models import Kind, LoadedModel
from workbench.shapes import Array
from workbench.statistics import Statistic, bootstrap
from workbench.trace import Text
from workbench.trace.encoding import encode_all

__all__ = ["FinalTokens", "change_of_final_tokens", "final_tokens"]


@dataclass(frozen=True, eq=False)
class FinalTokens:
    """Log-probability (nats) and rank, from 1, of each text's last token, read off each layer; 0 is the embeddings."""

    log_probability: Float[Array, "text layer"]
    rank: Int[Array, "text layer"]
    ids: tuple[int, ...]  # of the last tokens

    def statistics(self, seed: int = 0) -> dict[str, Statistic]:
        """The mean log-probability and the median rank by layer, with bootstrap intervals over texts."""
        return {
            "log-probability of the final token": _over_texts(
                self.log_probability, "log-probability of the final token", "nats", np.mean, seed
            ),
            "rank of the final token": _over_texts(
                self.rank, "rank of the final token", "median rank from 1", np.median, seed
            ),
        }


def final_tokens(model: LoadedModel, texts: Sequence[Text]) -> FinalTokens:
    """The logit lens of a causal model at the last token of each text that has two tokens or more.

    Raises :class:`~workbench.errors.ModelError` for another kind of model, and
    :class:`~workbench.errors.DataError` where no text has two tokens.

    Example:
        ```python
        import workbench
        from workbench.analysis.final_tokens import final_tokens

        found = final_tokens(workbench.load("novels-decoder"), ["She was happy."])
        print(found.log_probability, found.rank)
        ```
    """
    model.require(Kind.CAUSAL, verb="a trajectory of the final token")
    ids = [one.alignment.ids for one in encode_all(model, texts) if len(one.alignment) > 1]
    if not ids:
        raise DataError("every text has one token only, so nothing is predicted; give longer texts")
    found = [continuation_trajectory(model, row, len(row) - 1) for row in ids]
    logs, ranks = (np.stack([columns[part][:, 0] for columns in found]) for part in (0, 1))
    return FinalTokens(logs, ranks, tuple(row[-1] for row in ids))


def change_of_final_tokens(before: FinalTokens, after: FinalTokens, seed: int = 0) -> Statistic:
    """By how much the log-probability rose at each layer (nats), paired by text, with bootstrap intervals.

    Raises :class:`~workbench.errors.DataError` for other texts, or models of another depth.
    """
    if before.rank.shape != after.rank.shape or before.ids != after.ids:
        raise DataError("the models end the texts with different tokens, or have different numbers of layers")
    moved = after.log_probability - before.log_probability
    return _over_texts(moved, "change of log-probability of the final token", "nats", np.mean, seed)


def _over_texts(values: Array, name: str, unit: str, statistic: Callable[..., Any], seed: int) -> Statistic:
    found = [bootstrap(column, statistic, seed=seed) for column in values.T]
    return Statistic.of_estimates(
        found,
        range(values.shape[1]),
        name=name,
        unit=unit,
        count=len(values),
        note="logit lens; 0: embeddings",
    )
