"""How the checks ask a model: sample sequences, padded batches, one output tensor whatever the kind."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import signature
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from workbench.evaluate.doctor._records import NotApplicable
from workbench.models import Kind, LoadedModel
from workbench.models.batching import padding_id
from workbench.trace.decoder import decoder_prefix

__all__ = [
    "Batch",
    "outputs",
    "padded",
    "real_hidden_states",
    "real_outputs",
    "sample_sequences",
    "takes_positions",
    "truncate",
]

TEXTS = (
    "The cat sat on the mat.",
    "After years of looking, she found the letter behind the old clock in the hall.",
    "In 1987 it cost 3.14 times as much.",
    "Yes, naturally.",
)
_LONGEST = 24  # tokens: enough for every effect that is looked for, and quick
_DECODED = 6  # tokens on the decoder's side of a seq2seq model


@dataclass(frozen=True)
class Batch:
    """Token ids and attention mask (B, T); positions where they are given; the decoder's ids of encoder-decoders."""

    ids: Int[Tensor, "B T"]
    mask: Int[Tensor, "B T"]
    positions: Int[Tensor, "B T"] | None = None
    decoder_ids: Int[Tensor, "B D"] | None = None

    def arguments(self, model: Any) -> dict[str, Tensor]:
        """Arguments of the model's ``forward``."""
        given = {
            "input_ids": self.ids,
            "attention_mask": self.mask,
            "position_ids": self.positions,
            "decoder_input_ids": self.decoder_ids,
        }
        found = {name: value for name, value in given.items() if value is not None}
        if type(model).__name__.endswith("ForMultipleChoice"):  # (B, choices, T), here with one choice
            return {name: value.unsqueeze(1) for name, value in found.items()}
        return found


def sample_sequences(loaded: LoadedModel) -> list[list[int]]:
    """Token ids of the sample texts, of different lengths, with the tokenizer's own special tokens."""
    limit = min(_LONGEST, loaded.max_length)
    sequences = [truncate(loaded.tokenizer(text).input_ids, limit) for text in TEXTS]
    shortest = min(sequences, key=len)
    if len(shortest) < 2:
        raise NotApplicable(
            f"the tokenizer gives {len(shortest)} tokens for a sample text; at least 2 are needed"
        )
    return sequences


def truncate(ids: list[int], length: int) -> list[int]:
    """At most ``length`` ids; the last one stays, since it may be the end token that a head reads."""
    return ids if len(ids) <= length else [*ids[: length - 1], ids[-1]]


def padded(loaded: LoadedModel, sequences: list[list[int]], side: str = "right", extra: int = 0) -> Batch:
    """One batch of ``sequences``, padded on ``side`` to the longest and ``extra`` tokens more."""
    width = min(max(map(len, sequences)) + extra, loaded.max_length)
    pad_id = padding_id(loaded.tokenizer, loaded.config)
    ids, mask = [], []
    for sequence in sequences:
        padding = width - len(sequence)
        left, right = (padding, 0) if side == "left" else (0, padding)
        ids.append([*[pad_id] * left, *sequence, *[pad_id] * right])
        mask.append([*[0] * left, *[1] * len(sequence), *[0] * right])
    as_tensor = lambda rows: torch.tensor(rows, device=loaded.device)  # noqa: E731
    target = as_tensor([_target(loaded)] * len(ids)) if _reads_target(loaded) else None
    return Batch(as_tensor(ids), as_tensor(mask), decoder_ids=target)


def _reads_target(loaded: LoadedModel) -> bool:
    """Whether the model has a decoder that wants input of its own; classifiers make it themselves."""
    return loaded.kind is Kind.SEQ2SEQ or (
        loaded.kind is Kind.ENCODER and bool(loaded.config.is_encoder_decoder)
    )


def _target(loaded: LoadedModel) -> list[int]:
    """For encoder-decoders: the same short target for every row, behind the decoder's prefix."""
    return [*decoder_prefix(loaded), *sample_sequences(loaded)[0]][:_DECODED]


def takes_positions(loaded: LoadedModel) -> bool:
    """Whether the model's ``forward`` takes each token's position."""
    return "position_ids" in signature(loaded.model.forward).parameters


def outputs(model: Any, batch: Batch) -> Tensor:
    """Logits (B, T, V) or (B, classes), or hidden states (B, T, D) of a model without a head; at least float32."""
    answer = model(**batch.arguments(model))
    if getattr(answer, "logits", None) is not None:
        found = answer.logits
    elif getattr(answer, "start_logits", None) is not None:  # question answering: (B, T, 2)
        found = torch.stack([answer.start_logits, answer.end_logits], dim=-1)
    else:
        found = answer.last_hidden_state
    return found if found.dtype == torch.float64 else found.float()


def real_outputs(loaded: LoadedModel, batch: Batch) -> Tensor:
    """Outputs at real tokens, one row each (N, V); padding is left out. Without gradients."""
    with torch.no_grad():
        found = outputs(loaded.model, batch)
    if batch.decoder_ids is not None:  # what is padded is the encoder's side
        return found.flatten(0, 1)
    if loaded.kind is Kind.DETECTOR:  # (B, T)
        found = found.unsqueeze(-1)
    return found[batch.mask.bool()] if found.ndim == 3 else found


def real_hidden_states(loaded: LoadedModel, batch: Batch) -> Tensor:
    """Last hidden states of the text at real tokens (N, D), before any head or decoder. Without gradients."""
    with torch.no_grad():
        answer = loaded.model(**batch.arguments(loaded.model), output_hidden_states=True)
    encoded = getattr(answer, "encoder_last_hidden_state", None)
    states = answer.hidden_states[-1] if encoded is None else encoded
    return states[batch.mask.bool()].float()
