"""What a fine-tuned model answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional as F

from workbench.data.tables import Row
from workbench.models import Kind, LoadedModel
from workbench.models.batching import HeadOutput, Padding, head_outputs, padding_id, padding_of, row_of
from workbench.training.finetuning.encoding import Features, collate
from workbench.training.finetuning.tasks import AnswerKind, FineTask
from workbench.training.objectives import IGNORED

__all__ = ["Answers", "in_training", "pads_left", "predict"]

LONGEST_ANSWER = 30  # tokens of a span


@dataclass(frozen=True)
class Answers:
    """Predictions and gold answers, in the form that :func:`compute_metrics` takes, one of each a row."""

    predicted: list[Any]
    gold: list[Any]


def predict(
    model: Any,
    tokenizer: Any,
    features: Sequence[Features],
    rows: Sequence[Row],
    task: FineTask,
    batch_size: int,
) -> Answers:
    """Ask ``model`` about every row; sorted by length, so that little is padded, and put back in order."""
    order = sorted(range(len(features)), key=lambda i: len(str(features[i]["input_ids"])))
    found: dict[int, tuple[Any, Any]] = {}
    was_training = model.training
    model.eval()
    subject = in_training(model, tokenizer)
    for start in range(0, len(order), batch_size):
        places = order[start : start + batch_size]
        batch = [features[i] for i in places]
        if task.kind is AnswerKind.RESPONSE:
            answers = _responses(subject, batch)
        else:
            outputs = _outputs(subject, batch)
            asked = zip(outputs, batch, places, strict=True)
            answers = [_answer(task, output, feature, rows[place]) for output, feature, place in asked]
        found.update(zip(places, answers, strict=True))
    model.train(was_training)
    return Answers([found[i][0] for i in range(len(found))], [found[i][1] for i in range(len(found))])


def pads_left(model: Any, tokenizer: Any, task: FineTask) -> bool:
    """Whether batches to train on are padded on the left: the head reads the last place (XLNet); found by measuring.

    A head that bears no padding at all is trained with padding on the right. Only one answer a text has no places
    of its own: labels of tokens, spans and responses are counted from the left.
    """
    if task.kind not in (AnswerKind.CLASS, AnswerKind.NUMBER, AnswerKind.CHOICE):
        return False
    was_training = model.training
    model.eval()
    padding = padding_of(in_training(model, tokenizer))
    model.train(was_training)
    return padding is Padding.LEFT


def in_training(model: Any, tokenizer: Any) -> LoadedModel:
    """A model in training as classifiers are read."""
    weight = next(model.parameters())
    return LoadedModel(
        model=model,
        tokenizer=tokenizer,
        kind=Kind.CLASSIFIER,
        name="the model in training",
        revision=None,
        dtype=weight.dtype,
        device=weight.device,
        implementation="hf",
    )


def _outputs(model: LoadedModel, batch: Sequence[Features]) -> list[HeadOutput]:
    """The head's output for each row; of choices their scores in one line."""
    if not isinstance(batch[0]["input_ids"][0], list):
        return head_outputs(model, [row_of(feature) for feature in batch])
    choices = [
        row_of({name: feature[name][i] for name in ("input_ids", "token_type_ids") if name in feature})
        for feature in batch
        for i in range(len(feature["input_ids"]))
    ]
    scores = iter(output["logits"] for output in head_outputs(model, choices))
    return [{"logits": torch.cat([next(scores) for _ in feature["input_ids"]])} for feature in batch]


def _responses(model: LoadedModel, batch: Sequence[Features]) -> list[tuple[float, float]]:
    """The mean loss of each response, padded as in training."""
    inputs = collate(batch, padding_id(model.tokenizer, model.config))
    with torch.inference_mode():
        output = model.model(**{name: value.to(model.device) for name, value in inputs.items()})
    labels, is_causal = inputs["labels"].to(model.device), "encoder_last_hidden_state" not in output
    found = []
    for logits, wanted in zip(output.logits.float(), labels, strict=True):
        logits = logits[-len(wanted) :]  # prompt tuning has logits for its vectors too
        scored, labels = (logits[:-1], wanted[1:]) if is_causal else (logits, wanted)
        found.append((float(F.cross_entropy(scored, labels, ignore_index=IGNORED)), 0.0))
    return found


def _answer(task: FineTask, output: HeadOutput, feature: Features, source: Row) -> tuple[Any, Any]:
    if task.kind is AnswerKind.SPAN:
        return _span(output, feature, source, task)
    logits, labels = output["logits"], feature["labels"]
    if task.kind is AnswerKind.NUMBER:
        return float(logits.squeeze()), float(labels)
    if task.kind is AnswerKind.TOKENS:
        scored = [place for place, label in enumerate(labels) if label != IGNORED]
        best = logits.argmax(-1).tolist()
        return [task.labels[best[i]] for i in scored], [task.labels[labels[i]] for i in scored]
    return int(logits.argmax(-1)), int(labels)


def _span(output: HeadOutput, feature: Features, source: Row, task: FineTask) -> tuple[str, str]:
    """The best start and end in the context, in order and not too far apart; Devlin et al. 2019, section 4.2."""
    offsets = feature["offsets"]
    start, end = output["start_logits"], output["end_logits"]
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
