"""Pairs as token ids, and how likely a model finds each reply."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from workbench.data.rows import Preference
from workbench.errors import DataError
from workbench.terminal import counted
from workbench.text import chat_text
from workbench.training.preferences.settings import AlignSettings, LongPrompts

__all__ = ["EncodedPair", "Encoder", "reply_log_probs"]


@dataclass(frozen=True)
class EncodedPair:
    """Token ids of a prompt and its two replies; ``pair`` is what they were made from."""

    pair: Preference
    prompt: list[int]
    chosen: list[int]
    rejected: list[int]

    def to_dict(self) -> dict[str, list[int]]:
        """The row as TRL's trainers name it."""
        return {"prompt_ids": self.prompt, "chosen_ids": self.chosen, "rejected_ids": self.rejected}


@dataclass(frozen=True)
class Encoder:
    """Makes token ids of at most ``length`` of a pair.

    Prompt and reply are tokenized together, as in TRL: a reply begins where prompt and prompt with reply differ. The
    end token is added to a reply, where the tokenizer has one.
    """

    tokenizer: Any
    settings: AlignSettings
    length: int

    def encode(self, pairs: Sequence[Preference]) -> tuple[list[EncodedPair], dict[str, int]]:
        """The pairs that fit, and how many prompts and replies were shortened or left out.

        Raises :class:`~workbench.errors.DataError` for prompts that leave no room, unless the settings say otherwise.
        """
        found: list[EncodedPair] = []
        counts = {"prompts_cut": 0, "replies_cut": 0, "pairs_dropped": 0}
        long = []
        for pair in pairs:
            encoded = self.ids(pair)
            if len(encoded.prompt) >= self.length:
                long.append(pair)
                if self.settings.long_prompts is LongPrompts.DROP:
                    continue
                room = self.length - min(self.length - 1, max(len(encoded.chosen), len(encoded.rejected)))
                encoded = EncodedPair(pair, encoded.prompt[-room:], encoded.chosen, encoded.rejected)
            room = self.length - len(encoded.prompt)
            counts["replies_cut"] += sum(len(ids) > room for ids in (encoded.chosen, encoded.rejected))
            found.append(EncodedPair(pair, encoded.prompt, encoded.chosen[:room], encoded.rejected[:room]))
        if long:
            self._say_long(long, len(pairs), found)
            kind = "pairs_dropped" if self.settings.long_prompts is LongPrompts.DROP else "prompts_cut"
            counts[kind] = len(long)
        return found, {name: count for name, count in counts.items() if count}

    def _say_long(self, long: Sequence[Preference], total: int, kept: Sequence[EncodedPair]) -> None:
        if self.settings.long_prompts is LongPrompts.REFUSE or not kept:
            raise DataError(
                f"{counted(len(long), 'prompt')} of {total} (first {long[0].id}) leave no room for a reply in "
                f"{self.length} tokens; raise --length, up to the model's own limit, or shorten them with "
                "--long-prompts cut, or leave them out with --long-prompts drop"
            )

    def ids(self, pair: Preference) -> EncodedPair:
        """All token ids of a pair."""
        prompt = chat_text(self.tokenizer, pair.prompt) if self.settings.chat else pair.prompt
        alone, *both = (
            self._ids(prompt + reply) for reply in ("", self._ended(pair.chosen), self._ended(pair.rejected))
        )
        start = min(_shared(alone, ids) for ids in both)
        return EncodedPair(pair, alone[:start], both[0][start:], both[1][start:])

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=not self.settings.chat)["input_ids"]
        return ids

    def _ended(self, reply: str) -> str:
        end = self.tokenizer.eos_token or ""
        return reply if reply.endswith(end) and end else reply + end


def _shared(first: Sequence[int], second: Sequence[int]) -> int:
    """How many ids both begin with."""
    return next(
        (i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b),
        min(len(first), len(second)),
    )


def reply_log_probs(
    model: Any,
    sequences: Sequence[tuple[list[int], list[int]]],
    pad: int,
    batch_size: int,
    dtype: torch.dtype,
) -> list[float]:
    """Sum over each reply's tokens of their log-probability, in nats, given the prompt and what came before.

    ``sequences`` are (prompt, reply) ids. ``dtype`` is that of the arithmetic, as in training.
    """
    was_training, device = model.training, next(model.parameters()).device
    model.eval()
    order = sorted(range(len(sequences)), key=lambda i: sum(map(len, sequences[i])))
    found: dict[int, float] = {}
    with torch.no_grad(), torch.autocast(device.type, torch.bfloat16, enabled=dtype == torch.bfloat16):
        for places in _batches(order, batch_size):
            sums = _sums(model, [sequences[i] for i in places], pad, device)
            found.update(zip(places, sums.tolist(), strict=True))
    model.train(was_training)
    return [found[i] for i in range(len(sequences))]


def _sums(model: Any, rows: Sequence[tuple[list[int], list[int]]], pad: int, device: torch.device) -> Tensor:
    width = max(len(prompt) + len(reply) for prompt, reply in rows)
    ids = torch.full((len(rows), width), pad)
    mask, scored = torch.zeros_like(ids), torch.zeros_like(ids)
    for i, (prompt, reply) in enumerate(rows):
        end = len(prompt) + len(reply)
        ids[i, :end] = torch.tensor(prompt + reply)
        mask[i, :end] = 1
        scored[i, len(prompt) : end] = 1
    ids, mask, scored = ids.to(device), mask.to(device), scored[:, 1:].to(device)
    logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits[:, :-1].float()
    taken = logits.gather(-1, ids[:, 1:, None]).squeeze(-1) - logits.logsumexp(-1)
    return (taken * scored).sum(-1)


def _batches(order: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    for start in range(0, len(order), size):
        yield order[start : start + size]
