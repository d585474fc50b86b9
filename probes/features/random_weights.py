"""The same architecture with weights as drawn before any training: a control for what a probe finds."""

from __future__ import annotations

import copy
from dataclasses import replace

import torch

from workbench.models import LoadedModel

__all__ = ["with_random_weights"]


def with_random_weights(model: LoadedModel, seed: int = 0) -> LoadedModel:
    """A new model of the same class and configuration, initialised by its own rule with ``seed``.

    The tokenizer stays, so words become the same tokens. The caller's random state is left alone.
    """
    config = copy.deepcopy(model.config)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        fresh = type(model.model)(config)
    return replace(
        model,
        model=fresh.to(device=model.device, dtype=model.dtype).eval(),
        name=f"{model.name} (random weights)",
        path=None,
    )
