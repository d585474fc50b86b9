"""LAMBADA: the last word of a passage that only the wider passage gives away (Paperno et al. 2016)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workbench.data import read_lambada, split_target
from workbench.evaluate._task import TaskData, TaskItem
from workbench.models import Kind
from workbench.scoring import Request, Score
from workbench.statistics import Estimate, bootstrap, mean_estimate

__all__ = ["Lambada"]


@dataclass(frozen=True)
class Lambada:
    """The target is a space and the last word; all of it must be what greedy decoding gives.

    ``accuracy`` is the share of passages whose every target token is the most likely one; ``perplexity``
    is exp of the mean negative log-likelihood per target (not per token), as lm-eval reports it.
    """

    name: str
    about: str
    version: int = 1
    kinds: tuple[Kind, ...] = (Kind.CAUSAL,)
    accepts: tuple[str, ...] = ("chat", "system")

    def load(self, data_dir: Path | None) -> TaskData:
        """Read the variant's passages from ``data_dir``, the hub, or the package."""
        data = read_lambada(self.name, data_dir)
        return TaskData(tuple(_item(p.id, p.text) for p in data), data.identity)

    def example(self, item: TaskItem, scores: Sequence[Score], tokenizer: Any) -> dict[str, Any]:
        """Target, greedy decoding up to its first difference, log-probability (nats), rank of the first token."""
        (score,) = scores
        pairs = zip(score.token_ids, score.greedy_ids, strict=True)
        right = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
        return {
            **item.fields,
            "predicted": tokenizer.decode(list(score.greedy_ids[: right + 1])),
            "log_probability": score.log_probability,
            "tokens": score.tokens,
            "greedy": score.is_greedy,
            "rank": score.ranks[0],
            "truncated": score.truncated,
        }

    def metrics(self, examples: pd.DataFrame, seed: int) -> dict[str, Estimate]:
        """Accuracy with Wilson's interval, and perplexity per target, bootstrapped over passages."""
        loss = -examples["log_probability"].to_numpy(float)
        return {
            "accuracy": mean_estimate(examples["greedy"].to_numpy(float), seed=seed),
            "perplexity": bootstrap(loss, transform=np.exp, higher_is_better=False, seed=seed),
        }


def _item(name: str, text: str) -> TaskItem:
    context, target = split_target(text, name)
    return TaskItem(name, (Request(context, target),), {"text": text, "target": target})
