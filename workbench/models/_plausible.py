"""Whether a configuration can be that of the weights beside it, where transformers loads both without a word."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from workbench.errors import ModelError

__all__ = ["check_config", "check_weights"]

_COUNTS = (
    "num_hidden_layers",
    "num_attention_heads",
    "hidden_size",
    "vocab_size",
    "encoder_layers",
    "decoder_layers",
    "encoder_attention_heads",
    "decoder_attention_heads",
    "num_decoder_layers",
)


def check_config(config: Any, location: str) -> None:
    """Raise :class:`~workbench.errors.ModelError` for a model of no layers, heads, width or vocabulary."""
    text_config = config.get_text_config()
    for name in _COUNTS:
        value = getattr(text_config, name, None)
        if isinstance(value, int) and value < 1:
            written = text_config.attribute_map.get(name, name)  # n_layer, where that is GPT-2's own name
            raise ModelError(f"{location}/config.json: {written} is {value}; allowed: 1 or more")
    named = config.architectures
    if named is not None and not (isinstance(named, list) and all(isinstance(one, str) for one in named)):
        raise ModelError(
            f"{location}/config.json: architectures is {named!r:.60}; allowed: a list of class names"
        )


def check_weights(model: Any, unexpected: Iterable[str], location: str) -> None:
    """Raise :class:`~workbench.errors.ModelError` for a checkpoint with more layers than the model took.

    A weight that no part of the model took is fine (another head); one that has a brother of another number
    in the model belongs to a layer that config.json does not count.
    """
    known = {re.sub(r"\.\d+\.", ".N.", name) for name in model.state_dict()}
    for name in sorted(unexpected):
        if re.search(r"\.\d+\.", name) and re.sub(r"\.\d+\.", ".N.", name) in known:
            raise ModelError(
                f"{location}/config.json describes fewer layers than the weights hold: {name} and others would "
                "be left out; correct the number of layers"
            )
