"""What models score by plain calls of transformers, one text at a time: the right values for our scorers.

Nothing here comes from the code under test: no batch, no hook, no cache, one whole forward pass for each number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = ["plain_masked_logits", "plain_prefix", "plain_scores", "plain_target_scores"]


def plain_scores(model: Any, text: str, context: str = "") -> list[float]:
    """Log-probability of each token of ``text`` under a :class:`LoadedModel`, by its kind.

    A causal model reads ``context`` first (one that ends with a whole token), a masked one masks each token in turn
    (Salazar et al. 2020), and the encoder of an encoder-decoder reads ``context``.
    """
    network, tokenizer = model.model, model.tokenizer
    if model.config.is_encoder_decoder:
        target = tokenizer(text, add_special_tokens=False).input_ids
        return plain_target_scores(network, tokenizer(context).input_ids, plain_prefix(model), target)
    if model.kind == "masked":
        encoded = tokenizer(text)
        places = [i for i, word in enumerate(encoded.word_ids()) if word is not None]
        rows = [plain_masked_logits(model, encoded, [place])[place] for place in places]
        return [float(row.log_softmax(-1)[encoded.input_ids[p]]) for row, p in zip(rows, places, strict=True)]
    before = tokenizer(context, add_special_tokens=False).input_ids
    ids = [*before, *tokenizer(text, add_special_tokens=False).input_ids]
    with torch.no_grad():
        logits = network(input_ids=_row(network, ids), use_cache=False).logits[0].float()
    return [float(logits[i - 1].log_softmax(-1)[ids[i]]) for i in range(max(len(before), 1), len(ids))]


def plain_masked_logits(model: Any, encoded: Any, places: Sequence[int]) -> Tensor:
    """Logits (T, V) of a masked model that reads an encoded text with a mask at each of ``places``."""
    ids = list(encoded.input_ids)
    for place in places:
        ids[place] = model.tokenizer.mask_token_id
    given = {"input_ids": _row(model.model, ids), "attention_mask": _row(model.model, [1] * len(ids))}
    if getattr(model.config, "type_vocab_size", 0) > 1:
        given["token_type_ids"] = _row(model.model, encoded.get("token_type_ids") or [0] * len(ids))
    with torch.no_grad():
        logits: Tensor = model.model(**given).logits[0].float()
    return logits


def plain_prefix(model: Any) -> list[int]:
    """What a decoder reads before the target: the start token, and the one that generation is forced to begin with."""
    settings = model.model.generation_config
    forced = getattr(settings, "forced_bos_token_id", None)
    # T5's default configuration names neither of the first two: T5 is trained to start with padding.
    starts = (settings.decoder_start_token_id, settings.bos_token_id, settings.pad_token_id)
    start = next(number for number in starts if number is not None)
    return [start] if forced is None else [start, forced]


def plain_target_scores(
    network: Any, source: Sequence[int], prefix: Sequence[int], target: Sequence[int]
) -> list[float]:
    """Log-probability of each target token under an encoder-decoder whose decoder begins with ``prefix``."""
    with torch.no_grad():
        logits = network(
            input_ids=_row(network, source),
            attention_mask=_row(network, [1] * len(source)),
            decoder_input_ids=_row(network, [*prefix, *target[:-1]]),
            use_cache=False,
        ).logits[0, len(prefix) - 1 :]
    return [float(row.float().log_softmax(-1)[token]) for row, token in zip(logits, target, strict=True)]


def _row(network: Any, ids: Sequence[int]) -> Tensor:
    return torch.tensor([list(ids)], device=network.device)
