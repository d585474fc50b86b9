"""How well a trained model does its own objective on held-out rows, with intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from workbench.estimate import Estimate
from workbench.statistics import bootstrap
from workbench.training.blocks import Blocks
from workbench.training.objectives import IGNORED, Objective

__all__ = ["measure"]


def measure(
    model: Any, objective: Objective, blocks: Blocks, rows: int, *, characters_per_token: float | None = None
) -> dict[str, Estimate]:
    """Loss in nats per scored token, its perplexity, the share of tokens ranked first; each over whole rows.

    With ``characters_per_token`` of the text, also bits per character.
    """
    losses, hits = [], []
    was_training = model.training
    model.eval()
    with torch.inference_mode():
        for start in range(0, len(blocks), rows):
            batch = objective([blocks[i] for i in range(start, min(start + rows, len(blocks)))])
            batch = {name: value.to(model.device) for name, value in batch.items()}
            logits, labels = _scores(model, batch, objective)
            wrong = F.cross_entropy(
                logits.float().transpose(1, 2), labels, ignore_index=IGNORED, reduction="none"
            )
            scored = (labels != IGNORED).sum(1)
            losses.extend((wrong.sum(1) / scored)[scored > 0].tolist())
            right = (logits.argmax(-1) == labels).sum(1) / scored
            hits.extend(right[scored > 0].tolist())
    model.train(was_training)
    return _estimates(np.array(losses), np.array(hits), characters_per_token)


def _scores(model: Any, batch: dict[str, Any], objective: Objective) -> tuple[Any, Any]:
    """Logits (B, T, V) and the labels (B, T) that they are for."""
    labels = batch["labels"]
    output = model(**batch)
    logits = getattr(output, "logits", None)
    if logits is None:
        logits = output.prediction_logits
    if objective.auto == "AutoModelForCausalLM":
        return logits[:, :-1], labels[:, 1:]
    return logits, labels


def _estimates(
    losses: np.ndarray, hits: np.ndarray, characters_per_token: float | None
) -> dict[str, Estimate]:
    found = {
        "loss": bootstrap(losses, seed=0, higher_is_better=False),
        "perplexity": bootstrap(losses, seed=0, transform=np.exp, higher_is_better=False),
        "accuracy": bootstrap(hits, seed=0),
    }
    if characters_per_token is not None:
        found["bits_per_character"] = bootstrap(
            losses / np.log(2) / characters_per_token, seed=0, higher_is_better=False
        )
    return found
