"""Attention weighted by what is attended to: the norms of the vectors that each token contributes."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from workbench.errors import TraceError
from workbench.models import LoadedModel
from workbench.shapes import Array
from workbench.statistics import Statistic
from workbench.trace import Stack, TextTrace, Trace
from workbench.trace.parts import head_projections

__all__ = ["transformed_value_norms", "value_weighted_norms"]


def value_weighted_norms(model: LoadedModel, trace: Trace, text: TextTrace) -> Statistic:
    """||a f(x)|| for each query and key: attention a times the norm of the key's transformed value f(x).

    f(x) = (x W_V + b_V) W_O of one head (Kobayashi et al. 2020, norm-based analysis); the bias of the output
    projection belongs to no token and is left out. Needs ``record={"attention", "queries_keys"}``.
    """
    norms = transformed_value_norms(model, trace, text)
    stack = Stack.ENCODER if text.decoder_attention is None else Stack.DECODER
    return Statistic(
        name="value-weighted attention",
        unit="norm",
        values=text.attention * norms[:, :, None, :],
        axes=("layer", "head", "query", "key"),
        labels={
            "layer": trace.layers[stack],
            "head": trace.heads[stack],
            "query": text.tokens,
            "key": text.tokens,
        },
        note="one text",
    )


def transformed_value_norms(
    model: LoadedModel, trace: Trace, text: TextTrace
) -> Float[Array, "layer head key"]:
    """||f(x)|| of every key in every head: how much a token can contribute at all."""
    values = text.get("values")  # (L, key heads, T, d)
    stack = Stack.ENCODER if text.decoder_attention is None else Stack.DECODER
    layers, heads = trace.layers[stack], trace.heads[stack]
    if len(heads) % values.shape[1]:
        raise TraceError(f"norms need all heads of the trace; it has {len(heads)}: record it with heads=None")
    shared = len(heads) // values.shape[1]
    width = values.shape[-1]
    projections = head_projections(model.model, stack)
    norms = np.empty((len(layers), len(heads), values.shape[2]))
    for i, layer in enumerate(layers):
        matrix = projections[layer].float().cpu().numpy()  # (H * d, D)
        for j, head in enumerate(heads):
            output = values[i, j // shared] @ matrix[head * width : (head + 1) * width]
            norms[i, j] = np.linalg.norm(output, axis=-1)
    return norms
