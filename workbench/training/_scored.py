"""A masked-LM step that projects onto the vocabulary only where something is to be predicted.

At most places of a masked row there is no label, and for a small model the output layer is half of the work.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from torch import Tensor
from torch.nn import functional as F
from transformers import PreTrainedModel

from workbench.training.objectives import IGNORED

__all__ = ["can_skip", "scored_loss", "scored_places"]


def can_skip(model: Any, auto: str) -> bool:
    """Whether a step of ``model`` may leave out places without a label: a masked LM with one output layer."""
    is_masked = auto == "AutoModelForMaskedLM" and isinstance(model, PreTrainedModel)
    return is_masked and model.get_output_embeddings() is not None


@contextmanager
def scored_places(model: Any, labels: Tensor | None) -> Iterator[None]:
    """Inside, the output layer of ``model`` gets the states of labelled places only: (B, T, D) to (N, D)."""
    if labels is None:
        with nullcontext():
            yield
        return
    places = labels != IGNORED
    handle = model.get_output_embeddings().register_forward_pre_hook(lambda _, inputs: (inputs[0][places],))
    try:
        yield
    finally:
        handle.remove()


def scored_loss(output: Any, labels: Tensor, num_items_in_batch: Tensor | int | None = None) -> Tensor:
    """Cross-entropy in nats per label, for logits (N, V) of labelled places or (B, T, V) of all.

    The mean over labels, or their sum over ``num_items_in_batch`` when gradients accumulate over batches.
    """
    places = labels != IGNORED
    logits = output.logits if output.logits.dim() == 2 else output.logits[places]
    total = F.cross_entropy(logits.float(), labels[places], reduction="sum")
    count = places.sum() if num_items_in_batch is None else num_items_in_batch
    return total / count
