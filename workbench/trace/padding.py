"""Which texts may share a pass: where padding changes what a model gives, only those of one length."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextvars import Context
from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor, nn

from workbench.models.batching import padding_id
from workbench.trace.structure import call_model, differ, sample_inputs
from workbench.trace.writing import left_padding_matters

__all__ = ["padding_matters", "together"]

_PADDED = 3
_known: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()


def padding_matters(model: Any) -> bool:
    """Whether masked padding on the right of what a transformers model reads changes its output elsewhere.

    Measured with two small passes, once: convolutions (ConvBERT), pooled sequences (Funnel) and landmarks
    (Nyströmformer) read the padding too, whatever the mask says; ProphetNet's streams depend on a target's length.
    """
    if model not in _known:
        # in a context of its own, so that no open session watches or changes these passes
        _known[model] = Context().run(_measure, model)
    return _known[model]


def together(model: Any, lengths: Sequence[Hashable], side: str = "right") -> list[list[int]]:
    """Positions in ``lengths`` in groups that may be padded to one length: all, or those of one length each.

    ``side``: where the padding would stand; ``"left"`` is for prompts of a model without an encoder.
    """
    matters = left_padding_matters if side == "left" else padding_matters
    if len(set(lengths)) < 2 or not matters(model):
        return [list(range(len(lengths)))]
    groups: dict[Hashable, list[int]] = {}
    for position, length in enumerate(lengths):
        groups.setdefault(length, []).append(position)
    return list(groups.values())


def _measure(model: Any) -> bool:
    alone = sample_inputs(model)
    fill = padding_id(None, model.config)
    padded = {
        name: _longer(row, 0 if name == "attention_mask" else fill) for name, row in alone.items()
    }  # an encoder-decoder's target too
    read = model if model.get_output_embeddings() is not None else model.base_model
    first, second = (_output(call_model(read, **inputs)) for inputs in (alone, padded))
    return differ(first, second[:, : first.shape[1]])


def _longer(row: Tensor, value: int) -> Tensor:
    return nn.functional.pad(row, (0, _PADDED), value=value)


def _output(output: Any) -> Tensor:
    """The logits (B, T, V), or the last hidden states (B, T, D) of a model without a language-model head."""
    found: Tensor = next(value for value in output.values() if isinstance(value, Tensor) and value.ndim == 3)
    return found
