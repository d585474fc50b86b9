"""What padding changes, and whether generation can rely on its key/value cache: measured on small passes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextvars import Context
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from transformers import GenerationConfig

from workbench.models.batching import padding_id
from workbench.trace.structure import call_model, differ, evaluating, sample_inputs

__all__ = ["cache_works", "left_padding_matters", "padding_matters", "together"]

_PADDED = 3


_STEPS = 3


_padding: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()


_cache: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()


def left_padding_matters(model: Any) -> bool:
    """Whether masked padding before a prompt changes the logits from which ``generate`` chooses the next tokens.

    Measured with two short generations, once: a recurrent model that takes no mask (RWKV) reads the padding too.
    """
    if model not in _padding:
        # in a context of its own, so that no open session watches or changes these passes
        _padding[model] = Context().run(_measure_padding, model)
    return _padding[model]


def cache_works(model: Any) -> bool:
    """Whether ``generate`` chooses from the same logits with its key/value cache as without it; measured once.

    transformers sizes the cache of T5 by the encoder's depth, and a deeper decoder finds no place in it.
    """
    if model not in _cache:
        _cache[model] = Context().run(_measure_cache, model)
    return _cache[model]


def _measure_padding(model: Any) -> bool:
    alone, fill = sample_inputs(model), padding_id(None, model.config)
    padded = {
        name: nn.functional.pad(row, (_PADDED, 0), value=0 if name == "attention_mask" else fill)
        for name, row in alone.items()
    }
    cached = cache_works(model)
    return _part(_written(model, alone, cached), _written(model, padded, cached))


def _measure_cache(model: Any) -> bool:
    inputs = sample_inputs(model)
    if "decoder_input_ids" in inputs:
        inputs["decoder_input_ids"] = inputs["decoder_input_ids"][:, :1]
    plain = _written(model, inputs, cached=False)
    # Whatever a model raises says that its cache does not work.
    try:
        return not _part(plain, _written(model, inputs, cached=True))
    except Exception:
        return False


_Written = tuple[list[int], Tensor]


def _written(model: Any, inputs: dict[str, Tensor], cached: bool) -> _Written:
    """Ids of a few tokens that are generated greedily, and the logits (steps, V) that each was chosen from."""
    settings = GenerationConfig(
        max_new_tokens=_STEPS,
        min_new_tokens=_STEPS,
        do_sample=False,
        use_cache=cached,
        output_logits=True,
        return_dict_in_generate=True,
        pad_token_id=padding_id(None, model.config),
    )
    if "decoder_input_ids" in inputs:
        settings.decoder_start_token_id = int(inputs["decoder_input_ids"][0, 0])
    with torch.inference_mode(), evaluating(model):
        answer = model.generate(**inputs, generation_config=settings)
    logits = torch.cat(answer.logits)
    return answer.sequences[0, -len(logits) :].tolist(), logits


def _part(one: _Written, other: _Written) -> bool:
    """Whether the logits differ by more than rounding, up to where rounding tips a tie and the texts part."""
    same = [a == b for a, b in zip(one[0], other[0], strict=False)]
    steps = len(same) if all(same) else same.index(False) + 1
    return differ(one[1][:steps], other[1][:steps])


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
