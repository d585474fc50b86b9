"""Held-out results of a model that scores both replies of each pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workbench.data.rows import Preference
from workbench.estimate import Estimate
from workbench.shapes import Array
from workbench.statistics import mean_estimate
from workbench.terminal import counted
from workbench.training.preferences.job import Measured

__all__ = ["measured_pairs", "pair_metrics", "remarks"]


def measured_pairs(
    pairs: Sequence[Preference], chosen: Sequence[float], rejected: Sequence[float]
) -> Measured:
    """Metrics of the scores of both replies, and a row for each pair.

    A note says where accuracy is below one half beyond chance.
    """
    margins = np.subtract(chosen, rejected)
    metrics = pair_metrics(margins, [pair.cluster or pair.id for pair in pairs])
    notes: dict[str, Any] = {}
    if metrics["accuracy"].high < 0.5:
        notes["labels"] = (
            f"the held-out accuracy is {metrics['accuracy'].value:.2f}, below one half beyond chance: chosen and "
            "rejected may be swapped in the data to train on or in those held out"
        )
    scores = zip(pairs, chosen, rejected, strict=True)
    return Measured(metrics, tuple(_row(pair, float(a), float(b)) for pair, a, b in scores), notes)


def pair_metrics(margins: Array, clusters: Sequence[str]) -> dict[str, Estimate]:
    """Accuracy, margin, log-loss and Brier score of score differences (pair,), chosen minus rejected.

    Pairs with equal scores count as wrong. The last two read a margin as log-odds, as Bradley and Terry do: the
    chosen reply is preferred with probability 1 / (1 + exp(-margin)). The Brier score is the squared error summed over
    both replies (0 to 2), as in :mod:`workbench.evaluate.calibration`. Rows of one cluster are one item.
    """
    groups = clusters if len(set(clusters)) < len(clusters) else None
    wrong = np.exp(-np.logaddexp(0, margins))  # probability of the rejected reply
    values = {
        "accuracy": (np.asarray(margins > 0, float), True),
        "margin": (margins, True),
        "log_loss": (np.logaddexp(0, -margins), False),
        "brier": (2 * wrong**2, False),
    }
    return {
        name: mean_estimate(value, seed=0, clusters=groups, higher_is_better=higher)
        for name, (value, higher) in values.items()
    }


def _row(pair: Preference, chosen: float, rejected: float) -> dict[str, Any]:
    texts = {"id": pair.id, "prompt": pair.prompt, "chosen": pair.chosen, "rejected": pair.rejected}
    scores = {"scores": {"chosen": chosen, "rejected": rejected}, "gold": "chosen"}
    return {**texts, **scores, "correct": chosen > rejected, "cluster": pair.cluster or pair.id}


_COUNTED = {
    "empty": ("row", "with an empty reply left out"),
    "equal": ("row", "with two equal replies left out"),
    "rows_dropped": ("row", "left out, whose prompt leaves no room for a reply"),
    "prompts_dropped": ("prompt", "left out, which leaves no room for a reply"),
    "prompts_cut": ("prompt", "shortened at the beginning"),
    "replies_cut": ("text", "shortened at the end"),
}


def remarks(notes: Mapping[str, Any]) -> list[str]:
    """What a run's notes say of its data, in words."""
    counts = {**notes.get("left_out", {}), **notes}
    said = [
        f"{counted(counts[name], noun)} {what}" for name, (noun, what) in _COUNTED.items() if name in counts
    ]
    return said + [str(notes[name]) for name in ("labels", "end") if name in notes]
