"""What a decoder reads, and which score gradients are taken of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from workbench.errors import ModelError, TraceError
from workbench.models import Kind, LoadedModel
from workbench.text import Alignment, align
from workbench.trace.encoding import Encoded, inputs_of

__all__ = ["Target", "check_target", "decoder_batch", "generated_targets", "started", "target_score"]

_MAX_GENERATED = 64


@dataclass(frozen=True)
class Target:
    """The score whose gradient is taken: the log-probability (natural log) of ``token`` at ``position``.

    ``token`` is a vocabulary id, or a class number for a classifier; by default the likeliest.
    ``position`` counts in the text's own tokens, from the end where negative; by default the last one, or
    the first mask token for a masked model. A causal model's position predicts the token after it.
    """

    token: int | None = None
    position: int | None = None


def check_target(model: LoadedModel, target: Target | None) -> None:
    """Raise :class:`ModelError` if the model has no head, :class:`TraceError` if the token is out of range."""
    if model.kind is Kind.ENCODER:
        raise ModelError(f"{model.name} is an encoder without a head: there is no score to take gradients of")
    size = (
        model.config.num_labels
        if model.kind is Kind.CLASSIFIER
        else model.config.get_text_config().vocab_size
    )
    if target is not None and target.token is not None and not 0 <= target.token < size:
        raise TraceError(f"target token {target.token} is out of range: 0 to {size - 1}")


def target_score(
    model: LoadedModel, logits: Tensor, alignments: Sequence[Alignment], target: Target | None
) -> Tensor:
    """Sum over the batch of each text's target score; logits are (B, T, V), or (B, C) of a classifier."""
    chosen = target or Target()
    rows = []
    for row, alignment in enumerate(alignments):
        scores = logits[row] if logits.ndim == 2 else logits[row, _position(model, alignment, chosen)]
        token = int(scores.argmax()) if chosen.token is None else chosen.token
        rows.append(torch.log_softmax(scores.float(), dim=-1)[token])
    return torch.stack(rows).sum()


def _position(model: LoadedModel, alignment: Alignment, target: Target) -> int:
    position = target.position
    if position is None:
        mask = model.tokenizer.mask_token_id if model.kind is Kind.MASKED else None
        position = alignment.ids.index(mask) if mask in alignment.ids else -1
    if not -len(alignment) <= position < len(alignment):
        raise TraceError(f"target position {position} is out of range: the text has {len(alignment)} tokens")
    return position % len(alignment)


def decoder_batch(model: LoadedModel, read: Sequence[Encoded]) -> dict[str, Tensor]:
    """What the decoder reads, padded on the right."""
    inputs = inputs_of(model, read)
    return {"decoder_input_ids": inputs["input_ids"], "decoder_attention_mask": inputs["attention_mask"]}


def started(model: LoadedModel, target: Encoded) -> Encoded:
    """``target`` as a decoder reads it: behind the start token, and without the end that it predicts."""
    names = ("decoder_start_token_id", "bos_token_id", "pad_token_id")
    known = (getattr(model.config, name, None) for name in names)
    start = next((number for number in known if number is not None), 0)
    old = target.alignment
    end = len(old) - (old.ids[-1:] == (model.tokenizer.eos_token_id,))
    alignment = replace(
        old,
        tokens=(model.tokenizer.convert_ids_to_tokens(start), *old.tokens[:end]),
        ids=(start, *old.ids[:end]),
        offsets=((0, 0), *old.offsets[:end]),
        word_ids=(None, *old.word_ids[:end]),
    )
    return Encoded(alignment, (0,) * len(alignment), target.cut)


def generated_targets(model: LoadedModel, sources: Sequence[Encoded]) -> list[Encoded]:
    """What the model generates greedily for each source, at most 64 tokens."""
    targets = []
    count = min(_MAX_GENERATED, model.max_length - 3)  # special tokens are added when it is read again
    for source in sources:
        inputs = inputs_of(model, [source])
        with torch.no_grad():
            # without a cache, which transformers sizes wrongly where encoder and decoder differ in depth
            ids = model.model.generate(
                **inputs, max_new_tokens=count, do_sample=False, num_beams=1, use_cache=False
            )
        alignment = align(model.tokenizer.decode(ids[0], skip_special_tokens=True), model.tokenizer)
        targets.append(Encoded(alignment, (0,) * len(alignment)))
    return targets
