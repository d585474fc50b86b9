"""What is trained and how large it is: each model of a pair on its own."""

from __future__ import annotations

from typing import Any

from transformers import PreTrainedModel

from workbench.models.configuration import TransformerConfig
from workbench.models.size import flops_per_token
from workbench.training.objectives import Distilled, ReplacedTokens

__all__ = ["describe_model", "training_flops"]


def describe_model(model: Any) -> dict[str, Any]:
    """Class and weights of the model that the folder will hold, and of the one beside it."""
    if isinstance(model, Distilled):
        return {**_size(model.student), "teacher": _size(model.teacher)}
    if isinstance(model, ReplacedTokens):
        return {**_size(model.discriminator), "generator": _size(model.generator)}
    return _size(model)


def _size(model: Any) -> dict[str, Any]:
    return {"class": type(model).__name__, "parameters": sum(p.numel() for p in model.parameters())}


def training_flops(model: Any, length: int, scored: float = 1.0) -> float:
    """Operations of a training step per token: three forward passes for one with its gradient; a teacher has none.

    ``scored`` is the share of places at which the output layer runs.
    """
    if isinstance(model, Distilled):
        return 3.0 * _forward(model.student, length) + _forward(model.teacher, length)
    if isinstance(model, ReplacedTokens):
        return 3.0 * (_forward(model.generator, length) + _forward(model.discriminator, length))
    skipped = 2.0 * model.get_output_embeddings().weight.numel() if scored < 1.0 else 0.0
    return 3.0 * (_forward(model, length) - (1.0 - scored) * skipped)


def _forward(model: Any, length: int) -> float:
    """Of a forward pass; for foreign models two a weight (Kaplan et al. 2020, section 2.1)."""
    config = getattr(model, "config", None)
    if isinstance(config, TransformerConfig) and isinstance(model, PreTrainedModel):
        return float(flops_per_token(config, length, type(model)))
    return 2.0 * sum(p.numel() for p in model.parameters())
