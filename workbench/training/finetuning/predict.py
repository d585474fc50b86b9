"""What a fine-tuned model answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from workbench.data.tables import Row
from workbench.training.finetuning.encoding import Features, collate
from workbench.training.finetuning.heads import ask
from workbench.training.finetuning.tasks import AnswerKind, FineTask
from workbench.training.objectives import IGNORED

__all__ = ["Answers", "predict"]

LONGEST_ANSWER = 30  # tokens of a span


@dataclass(frozen=True)
class Answers:
    """Predictions and gold answers, in the form that :func:`compute_metrics` takes, one of each a row."""

    predicted: list[Any]
    gold: list[Any]


def predict(
    model: Any,
    features: Sequence[Features],
    rows: Sequence[Row],
    task: FineTask,
    pad: int,
    batch_size: int,
    *,
    one_by_one: bool = False,
) -> Answers:
    """Ask ``model`` about every row; sorted by length, so that little is padded, and put back in order."""
    order = sorted(range(len(features)), key=lambda i: len(str(features[i]["input_ids"])))
    device = next(model.parameters()).device
    found: dict[int, tuple[Any, Any]] = {}
    was_training = model.training
    model.eval()
    with torch.inference_mode():
        for start in range(0, len(order), batch_size):
            places = order[start : start + batch_size]
            batch = {k: v.to(device) for k, v in collate([features[i] for i in places], pad).items()}
            output = ask(model, batch, one_by_one=one_by_one)
            for row, place in enumerate(places):
                found[place] = _answer(task, output, batch, row, features[place], rows[place])
    model.train(was_training)
    return Answers([found[i][0] for i in range(len(found))], [found[i][1] for i in range(len(found))])


def _answer(
    task: FineTask, output: Any, batch: dict[str, Tensor], row: int, feature: Features, source: Row
) -> tuple[Any, Any]:
    if task.kind is AnswerKind.SPAN:
        return _span(output, row, feature, source, task)
    logits, labels = output.logits[row].float(), batch["labels"][row]
    if task.kind is AnswerKind.NUMBER:
        return float(logits.squeeze()), float(labels)
    if task.kind is AnswerKind.TOKENS:
        scored = labels != IGNORED
        names = task.labels
        return [names[i] for i in logits.argmax(-1)[scored].tolist()], [
            names[i] for i in labels[scored].tolist()
        ]
    if task.kind is AnswerKind.RESPONSE:
        is_causal = "encoder_last_hidden_state" not in output
        told, asked = (logits[:-1], labels[1:]) if is_causal else (logits, labels)
        return float(F.cross_entropy(told, asked, ignore_index=IGNORED)), 0.0
    return int(logits.argmax(-1)), int(labels)


def _span(output: Any, row: int, feature: Features, source: Row, task: FineTask) -> tuple[str, str]:
    """The best start and end in the context, in order and not too far apart; Devlin et al. 2019, section 4.2."""
    offsets = feature["offsets"]
    start, end = output.start_logits[row].float(), output.end_logits[row].float()
    scores = start[:, None] + end[None, :]
    inside = torch.zeros(len(start), dtype=torch.bool, device=start.device)
    inside[: len(offsets)] = torch.tensor([o[0] >= 0 for o in offsets], device=start.device)
    allowed = (
        torch.ones_like(scores).triu().tril(LONGEST_ANSWER - 1).bool() & inside[:, None] & inside[None, :]
    )
    best = int(scores.masked_fill(~allowed, float("-inf")).argmax())
    first, last = divmod(best, len(end))
    context = str(source[task.pair or ""])
    return context[offsets[first][0] : offsets[last][1]], str(source[task.label])
