"""Held-out results of a model that scores both replies of each pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workbench.data.rows import Preference
from workbench.estimate import Estimate
from workbench.statistics import mean_estimate, wilson
from workbench.terminal import counted
from workbench.training.preferences.job import Measured

__all__ = ["measured_pairs", "pair_rows", "remarks"]


def measured_pairs(
    pairs: Sequence[Preference], chosen: Sequence[float], rejected: Sequence[float]
) -> Measured:
    """Accuracy and margin of the scores of both replies; ties count as wrong.

    Under Bradley-Terry a margin is the log-odds that the chosen reply is preferred.
    """
    margins = np.asarray(chosen, dtype=float) - np.asarray(rejected, dtype=float)
    metrics: dict[str, Estimate] = {
        "accuracy": wilson(int((margins > 0).sum()), len(margins)),
        "margin": mean_estimate(margins, seed=0),
    }
    notes: dict[str, Any] = {}
    accuracy = metrics["accuracy"]
    if accuracy.high is not None and accuracy.high < 0.5:
        notes["labels"] = (
            f"accuracy {accuracy.value:.2f} is far below one half: chosen and rejected may be swapped in the data"
        )
    return Measured(metrics, tuple(pair_rows(pairs, chosen, rejected)), notes)


def pair_rows(
    pairs: Sequence[Preference], chosen: Sequence[float], rejected: Sequence[float]
) -> list[dict[str, Any]]:
    """A row for each pair: its texts, both scores, and whether the chosen reply has the higher one."""
    return [
        {
            "id": pair.id,
            "prompt": pair.prompt,
            "chosen": pair.chosen,
            "rejected": pair.rejected,
            "chosen_score": float(a),
            "rejected_score": float(b),
            "correct": bool(a > b),
        }
        for pair, a, b in zip(pairs, chosen, rejected, strict=True)
    ]


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
