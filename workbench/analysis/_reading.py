"""Which stack of a model reads texts, and the module to call for it alone."""

from __future__ import annotations

from torch import nn

from workbench.errors import TraceError
from workbench.models import LoadedModel
from workbench.trace import Stack, Structure, structure_of

__all__ = ["reading_stack"]


def reading_stack(model: LoadedModel, stack: str | None = None) -> tuple[Structure, Stack, nn.Module]:
    """The stack that reads plain texts, by default the only one or the encoder, and its module.

    Raises :class:`TraceError` for the decoder or cross-attention of an encoder-decoder, which need targets.
    """
    structure = structure_of(model.model)
    if not model.config.is_encoder_decoder:
        return structure, structure.stack(stack), model.model.base_model
    where = structure.stack(stack or Stack.ENCODER)
    if where is not Stack.ENCODER:
        raise TraceError(
            f"statistics over a corpus are of the encoder of {model.name}; for its {where} attention use "
            "workbench.trace with targets"
        )
    return structure, where, structure.root(model.model, where)
