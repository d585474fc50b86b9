"""Conversations as rows to train on: only the assistant's replies are scored; several in one row, apart."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import Any

import torch

from workbench.data.chats import prompt_and_reply, read_messages
from workbench.data.rows import Turn
from workbench.data.tables import Row
from workbench.errors import ConfigError, DataError, ModelError
from workbench.text.chats import conversation_ids
from workbench.trace.structure import call_model, differ
from workbench.training.finetuning.tasks import FineTask
from workbench.training.objectives import IGNORED

__all__ = ["Features", "check_packs", "conversation", "pack", "written_reply"]

Features = dict[str, Any]


def conversation(row: Row, task: FineTask, tokenizer: Any, length: int, number: int) -> Features:
    """A conversation's ids; ``labels`` are those of the assistant's replies and of what ends each.

    Of more than ``length`` tokens the last turns are cut, down to the first reply; where that does not fit either,
    its prompt loses its beginning, and a reply that is longer alone its end. ``cut`` is how many tokens were.
    Raises :class:`~workbench.errors.DataError` for a row whose conversation the template cannot write so.
    """
    try:
        ids, replies = conversation_ids(tokenizer, _turns(row, task, number))
    except ModelError as error:
        raise DataError(f"{task.name}, row {number}: {error}") from None
    labels = [IGNORED] * len(ids)
    for first, end in replies:
        labels[first:end] = ids[first:end]
    asked, answered = replies[0]
    end = max(length, answered) if answered - asked < length else asked + length
    start = max(0, min(end, len(ids)) - length)
    kept, scored = ids[start:end], labels[start:end]
    scored[0] = IGNORED  # nothing stands before it
    return {
        "input_ids": kept,
        "attention_mask": [1] * len(kept),
        "labels": scored,
        "cut": len(ids) - len(kept),
    }


def _turns(row: Row, task: FineTask, number: int) -> tuple[Turn, ...]:
    if task.has_messages:
        return read_messages(row[task.text], f"{task.name}, row {number}")
    below = "" if task.pair is None else str(row.get(task.pair) or "")
    return prompt_and_reply(str(row[task.text]), below, str(row[task.label]))


def written_reply(row: Row, task: FineTask, tokenizer: Any, length: int, number: int) -> Features:
    """The prompt for the encoder, the reply and the end as what the decoder writes.

    Raises :class:`~workbench.errors.DataError` for a conversation of several replies.
    """
    *before, (_, reply) = _turns(row, task, number)
    if any(role == "assistant" for role, _ in before):
        raise DataError(
            f"{task.name}, row {number}: a conversation of several replies, and an encoder-decoder writes one; give "
            "each a row of its own, or a decoder"
        )
    asked = "\n".join(text for _, text in before)
    source = tokenizer(asked, verbose=False)["input_ids"]
    found = dict(tokenizer(asked, truncation=True, max_length=length))
    end = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
    response = tokenizer(reply, add_special_tokens=False)["input_ids"]
    kept = response[: length - len(end)]
    cut = len(source) - len(found["input_ids"]) + len(response) - len(kept)
    return {**found, "labels": [*kept, *end], "cut": cut}


def pack(features: Sequence[Features], length: int) -> list[Features]:
    """Conversations in as few rows of at most ``length`` tokens as best-fit decreasing finds.

    ``position_ids`` start again at each conversation, which attention does not leave (Krell et al. 2021, "Efficient
    Sequence Packing without Cross-contamination"); the first token of each is never scored, so that none is predicted
    from the conversation before.

    Example:
        ```python
        from workbench.training.finetuning import pack

        rows = [{"input_ids": [1] * n, "attention_mask": [1] * n, "labels": [1] * n} for n in (6, 3, 2)]
        print([row["position_ids"] for row in pack(rows, 8)])
        ```
    """
    room: list[tuple[int, int]] = []  # free places and number of each row
    rows: list[list[int]] = []
    for place in sorted(range(len(features)), key=lambda i: -len(features[i]["input_ids"])):
        size = len(features[place]["input_ids"])
        fitting = bisect_left(room, (size, 0))
        free, row = room.pop(fitting) if fitting < len(room) else (length, len(rows))
        if row == len(rows):
            rows.append([])
        rows[row].append(place)
        insort(room, (free - size, row))
    return [_joined([features[place] for place in row]) for row in rows]


def _joined(parts: Sequence[Features]) -> Features:
    labels = [label for part in parts for label in (IGNORED, *part["labels"][1:])]
    return {
        "input_ids": [token for part in parts for token in part["input_ids"]],
        "attention_mask": [1] * len(labels),
        "labels": labels,
        "position_ids": [place for part in parts for place in range(len(part["input_ids"]))],
    }


def check_packs(model: Any) -> None:
    """Raise :class:`~workbench.errors.ConfigError` where texts in one row change each other's logits, by measuring."""
    size = min(model.config.get_text_config().vocab_size, 97)
    lengths = (7, 5)
    texts = [(torch.arange(length) * 5 % size).to(model.device) for length in lengths]
    places = torch.cat([torch.arange(length) for length in lengths]).to(model.device)
    try:
        packed = call_model(model, input_ids=torch.cat(texts)[None], position_ids=places[None]).logits[0]
        alone = [call_model(model, input_ids=text[None]).logits[0] for text in texts]
        mixed = differ(torch.cat(alone), packed)
    except (TypeError, ValueError, RuntimeError, IndexError):
        mixed = True
    if mixed:
        raise ConfigError(
            f"packing does not go with {type(model).__name__}: texts in one row are not kept apart; leave it out"
        )
