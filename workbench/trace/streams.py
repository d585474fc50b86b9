"""XLNet's two streams of attention: what a token sees, and what a token that is still to be predicted sees."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from workbench.errors import TraceError
from workbench.models import LoadedModel, as_model
from workbench.models.measured import has_order
from workbench.shapes import Array
from workbench.trace._trace import Record, Trace
from workbench.trace.attention_hook import Stack
from workbench.trace.encoding import Text, encode_all, inputs_of
from workbench.trace.recording import trace
from workbench.trace.structure import evaluating

__all__ = ["TwoStreams", "two_streams"]


@dataclass(frozen=True)
class TwoStreams:
    """Attention of both streams as traces of one text, which all views of attention draw.

    ``content``: of each token over itself and those before it in ``order``. ``query``: of the place of a token, whose
    content it does not see, over those before it; the row of the first in the order is zero, since it sees nothing.
    """

    content: Trace
    query: Trace
    order: tuple[int, ...]


def two_streams(model: LoadedModel | str, text: Text, order: Sequence[int] | None = None) -> TwoStreams:
    """The maps of the content stream and of the query stream for one order of prediction.

    Yang et al. 2019, "XLNet", section 2.3, equations 3 and 4. For any model of transformers that takes ``perm_mask``
    and ``target_mapping``; outside such a pass the same model reads the whole text with its content stream alone, as
    :func:`~workbench.trace.trace` records it.

    Args:
        model: a model that takes an order, or its name.
        text: one text.
        order: places of the text's tokens, each once, in the order of prediction; from left to right by default.

    Raises:
        TraceError: a model without two streams, or an order that is no permutation of the places.

    Example:
        ```python
        import transformers

        import workbench
        from workbench.trace import two_streams

        tokenizer = workbench.load("novels-encoder").tokenizer
        config = transformers.XLNetConfig(vocab_size=len(tokenizer), d_model=32, n_layer=2, n_head=4, d_inner=64)
        model = workbench.wrap(transformers.XLNetModel(config), tokenizer)
        found = two_streams(model, "She was happy.")
        print(found.query.texts[0].attention.shape)
        found.query.figure().save("query.html")
        ```
    """
    loaded = as_model(model)
    if not has_order(loaded.model):
        raise TraceError(
            f"{loaded.name} has one stream of attention, which workbench.trace records; two streams are those of "
            "models that take an order of prediction (XLNet)"
        )
    recorded = trace(loaded, [text], {Record.ATTENTION})
    length = len(recorded.texts[0].alignment)
    places = tuple(range(length)) if order is None else tuple(order)
    if sorted(places) != list(range(length)):
        raise TraceError(
            f"order {list(places)} is no permutation of the text's {length} places; give each of 0 to {length - 1} once"
        )
    content, query = _maps(loaded, text, places)
    return TwoStreams(_with(recorded, content), _with(recorded, query), places)


def _maps(model: LoadedModel, text: Text, order: tuple[int, ...]) -> tuple[Array, Array]:
    """(L, H, T, T) of both streams."""
    inputs = inputs_of(model, encode_all(model, [text]))
    rank = torch.tensor(order, device=model.device).argsort()  # of each place
    hidden = (
        rank[None, :] >= rank[:, None]
    ).float()  # (query, key): 1 for the token itself and those after it
    ordered = {"perm_mask": hidden[None], "target_mapping": torch.eye(len(order), device=model.device)[None]}
    with model.lock, torch.no_grad(), evaluating(model.model):
        found: Any = model.model.base_model(**inputs, **ordered, output_attentions=True).attentions
    content, query = (np.stack([layer[n][0].float().cpu().numpy() for layer in found]) for n in (0, 1))
    query[:, :, order[0]] = 0.0  # behind a mask over everything the softmax is of no meaning
    return content, query


def _with(recorded: Trace, attention: Array) -> Trace:
    (one,) = recorded.texts
    if recorded.main is Stack.DECODER:  # attn_type "uni"
        one = dataclasses.replace(one, decoder_attention=attention)
    else:
        one = dataclasses.replace(one, encoder_attention=attention)
    return dataclasses.replace(recorded, texts=(one,))
