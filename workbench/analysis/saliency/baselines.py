"""What stands for "this token is not there"."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from workbench.errors import TaskError
from workbench.models import LoadedModel
from workbench.shapes import Array

__all__ = ["Baseline", "baseline_name", "baseline_vectors"]

Baseline: TypeAlias = str | Array | None
NAMES = ("pad", "mask", "zero", "mean")


def baseline_name(model: LoadedModel, baseline: Baseline) -> str:
    """The name that stands in a result; by default "mask", or where there is no such token "pad" or "zero".

    A masked token is how an encoder was taught that a word is missing. It never read a pad token in training, whose
    embedding may be anything: docs/benchmarks.md has a model where that hides the word that decides.
    """
    if baseline is None:
        return next((name for name in ("mask", "pad") if _token(model, name) is not None), "zero")
    if isinstance(baseline, str):
        if baseline not in NAMES:
            raise TaskError(f"unknown baseline {baseline!r}; allowed: {', '.join(NAMES)}, or an array")
        if baseline in ("pad", "mask") and _token(model, baseline) is None:
            raise TaskError(
                f"the tokenizer of {model.name} has no {baseline} token; use baseline 'zero' or 'mean'"
            )
        return baseline
    return "custom"


def baseline_vectors(model: LoadedModel, baseline: Baseline) -> Tensor:
    """Embedding of the baseline: (D,), or for an array also (T, D).

    "pad" and "mask" are those tokens' embeddings, "mean" is that of the whole vocabulary.
    """
    name = baseline_name(model, baseline)
    embed = model.model.get_input_embeddings()
    size, width = embed.weight.shape
    if name == "custom":
        vectors = torch.as_tensor(np.asarray(baseline), dtype=embed.weight.dtype, device=model.device)
        if vectors.ndim not in (1, 2) or vectors.shape[-1] != width:
            raise TaskError(
                f"baseline of shape {tuple(vectors.shape)}; allowed: ({width},) or (tokens, {width}) for {model.name}"
            )
        return vectors
    with torch.no_grad():
        if name == "zero":
            return torch.zeros(width, dtype=embed.weight.dtype, device=model.device)
        ids = torch.arange(size, device=model.device) if name == "mean" else _token_ids(model, name)
        mean: Tensor = embed(ids).mean(0)
        return mean


def _token(model: LoadedModel, name: str) -> int | None:
    token = getattr(model.tokenizer, f"{name}_token_id", None)
    return token if isinstance(token, int) else None


def _token_ids(model: LoadedModel, name: str) -> Tensor:
    return torch.tensor([_token(model, name)], device=model.device)
