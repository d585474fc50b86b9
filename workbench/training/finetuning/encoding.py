"""From rows to model inputs, and batches of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from workbench.data.tables import Row, read_marks
from workbench.errors import DataError
from workbench.text import align, align_words, require_fast
from workbench.trace.encoding import Encoded, cut_to
from workbench.training.finetuning.conversations import Features, conversation, written_reply
from workbench.training.finetuning.tasks import AnswerKind, FineTask
from workbench.training.objectives import IGNORED

__all__ = ["Features", "collate", "encode"]


def encode(
    rows: Sequence[Row], task: FineTask, tokenizer: Any, length: int, *, two_sided: bool = False
) -> list[Features]:
    """One dictionary of ids and labels a row; texts longer than ``length`` tokens are truncated at their end.

    Of a pair the longer text is truncated, of a question and its context the context, of a conversation as
    :func:`~workbench.training.finetuning.conversations.conversation` says. ``two_sided``: an encoder reads the prompt
    and a decoder writes the response.
    Raises :class:`~workbench.errors.DataError` for rows that do not fit the task.
    """
    maker = written_reply if two_sided and task.kind is AnswerKind.RESPONSE else _MAKERS[task.kind]
    return [maker(row, task, tokenizer, length, number) for number, row in enumerate(rows, 1)]


def _text(row: Row, task: FineTask, tokenizer: Any, length: int, number: int) -> Features:
    pair = None if task.pair is None else str(row[task.pair])
    features = dict(tokenizer(str(row[task.text]), pair, truncation=True, max_length=length))
    value = str(row[task.label])
    features["labels"] = float(value) if task.kind is AnswerKind.NUMBER else task.labels.index(value)
    if task.rationale is not None:
        features["marked"] = _marked(row, task, tokenizer, len(features["input_ids"]), number)
    return features


def _marked(row: Row, task: FineTask, tokenizer: Any, length: int, number: int) -> list[int]:
    """1 for each of the ``length`` tokens that belongs to a marked word; the last of a truncated text is no word."""
    place = f"{task.name}, row {number}"
    marks = read_marks(row.get(task.rationale or ""), place)
    if not marks:
        return [0] * length
    aligned = align(str(row[task.text]), tokenizer)
    if len(marks) != len(aligned.words):
        raise DataError(
            f"{place}: a rationale has a 0 or 1 for each of the {len(aligned.words)} words, this one {len(marks)}"
        )
    tokens = [0 if word is None else marks[word] for word in aligned.word_ids]
    return tokens if len(tokens) == length else [*tokens[: length - 1], 0]


def _tokens(row: Row, task: FineTask, tokenizer: Any, length: int, number: int) -> Features:
    """The first piece of each word carries its label; Devlin et al. 2019, section 5.3."""
    words, labels = row[task.text], row[task.label]
    if len(words) != len(labels):
        raise DataError(f"{task.name}, row {number}: {len(words)} words and {len(labels)} labels")
    aligned = align_words(words, tokenizer)
    encoded = cut_to(Encoded(aligned, (0,) * len(aligned)), length)
    marked = [IGNORED] * len(encoded.alignment)
    for label, (first, last) in zip(labels, encoded.alignment.token_spans, strict=True):
        if first < last:
            marked[first] = task.labels.index(str(label))
    ids = encoded.alignment.ids
    features: Features = {"input_ids": list(ids), "attention_mask": [1] * len(ids), "labels": marked}
    if "token_type_ids" in tokenizer.model_input_names:
        features["token_type_ids"] = [0] * len(ids)
    return features


def _span(row: Row, task: FineTask, tokenizer: Any, length: int, number: int) -> Features:
    """Positions of the answer's first and last token; both 0 where it was truncated away."""
    context, answer = str(row[task.pair or ""]), str(row[task.label])
    start = row.get("answer_start")
    start = context.find(answer) if start is None else int(start)
    if context[start : start + len(answer)] != answer or start < 0:
        raise DataError(f"{task.name}, row {number}: the answer {answer!r:.40} does not stand in the context")
    require_fast(tokenizer, verb="fine-tuning on answers in a text")
    encoded = tokenizer(
        str(row[task.text]),
        context,
        truncation="only_second",
        max_length=length,
        return_offsets_mapping=True,
    )
    offsets, parts = encoded.pop("offset_mapping"), encoded.sequence_ids()
    end = start + len(answer)
    inside = [
        i
        for i, (o, part) in enumerate(zip(offsets, parts, strict=True))
        if part == 1 and o[0] < end and o[1] > start
    ]
    spans = [list(o) if part == 1 else [-1, -1] for o, part in zip(offsets, parts, strict=True)]
    first, last = (inside[0], inside[-1]) if inside else (0, 0)
    return {**encoded, "start_positions": first, "end_positions": last, "offsets": spans}


def _choice(row: Row, task: FineTask, tokenizer: Any, length: int, number: int) -> Features:
    choices, gold = row[task.pair or ""], int(row[task.label])
    if not isinstance(choices, list) or not 0 <= gold < len(choices):
        raise DataError(f"{task.name}, row {number}: {task.label} is {gold}, of {len(choices)} choices")
    texts = [str(row[task.text])] * len(choices)
    encoded = tokenizer(texts, [str(c) for c in choices], truncation="longest_first", max_length=length)
    return {**encoded, "labels": gold}


_MAKERS: dict[AnswerKind, Callable[[Row, FineTask, Any, int, int], Features]] = {
    AnswerKind.CLASS: _text,
    AnswerKind.NUMBER: _text,
    AnswerKind.TOKENS: _tokens,
    AnswerKind.SPAN: _span,
    AnswerKind.CHOICE: _choice,
    AnswerKind.RESPONSE: conversation,
}


def collate(features: Sequence[Features], pad: int, *, left: bool = False) -> dict[str, Tensor]:
    """One batch, padded on the right (``left``: on the left); choices become (B, choices, T)."""
    values = {"input_ids": pad, "labels": IGNORED}
    batch = {}
    for name in features[0]:
        if name in ("offsets", "cut"):  # about a row, for those who read its output or count
            continue
        column = [feature[name] for feature in features]
        if isinstance(column[0], list):
            batch[name] = _padded(column, values.get(name, 0), left)
        else:
            batch[name] = torch.tensor(column)
    return batch


def _padded(column: list[Any], value: int, left: bool) -> Tensor:
    if isinstance(column[0][0], list):  # (B, choices, T)
        choices = max(len(row) for row in column)
        flat = [ids for row in column for ids in [*row, *[[value]] * (choices - len(row))]]
        return _padded(flat, value, left).view(len(column), choices, -1)
    width = max(len(row) for row in column)
    gaps = [[value] * (width - len(row)) for row in column]
    pairs = zip(gaps, column, strict=True)
    return torch.tensor([[*gap, *row] if left else [*row, *gap] for gap, row in pairs])
