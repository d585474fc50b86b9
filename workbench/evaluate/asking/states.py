"""States of words in their sentences, as features of a pair."""

from __future__ import annotations

from collections.abc import Iterator, Set

import torch
from torch import Tensor

from workbench.evaluate._requests import PairFeatures, SpanPairRequest
from workbench.evaluate.asking._how import How
from workbench.models import LoadedModel
from workbench.trace.encoding import encode_all, inputs_of

__all__ = ["ask_word_pairs"]


def ask_word_pairs(
    model: LoadedModel, pairs: list[SpanPairRequest], done: Set[int], how: How
) -> Iterator[list[tuple[int, PairFeatures]]]:
    """Features of each pair: the spans' mean last-layer states u and v, |u - v| and u * v."""
    for place, pair in enumerate(pairs):
        if place not in done:
            u = _state(model, pair.first, pair.first_span)
            v = _state(model, pair.second, pair.second_span)
            values = torch.cat([u, v, (u - v).abs(), u * v]).tolist()
            yield [(place, PairFeatures(tuple(values)))]


def _state(model: LoadedModel, text: str, span: tuple[int, int]) -> Tensor:
    (encoded,) = encode_all(model, [text])
    inputs, offsets = inputs_of(model, [encoded]), encoded.alignment.offsets
    with model.lock, torch.inference_mode():
        output = model.model(**inputs, output_hidden_states=True)
    states = output.hidden_states[-1][0].float().cpu()
    inside = [
        i for i, (start, end) in enumerate(offsets) if start < span[1] and end > span[0] and end > start
    ]
    return states[inside].mean(0) if inside else states.mean(0)
