"""A model with the head that a task needs."""

from __future__ import annotations

from typing import Any

import transformers

from workbench.errors import ModelError
from workbench.models import load_tokenizer
from workbench.models.loading import locate
from workbench.training.finetuning.tasks import AnswerKind, FineTask

__all__ = ["load_with_head"]

_AUTO = {
    AnswerKind.CLASS: "AutoModelForSequenceClassification",
    AnswerKind.NUMBER: "AutoModelForSequenceClassification",
    AnswerKind.TOKENS: "AutoModelForTokenClassification",
    AnswerKind.SPAN: "AutoModelForQuestionAnswering",
    AnswerKind.CHOICE: "AutoModelForMultipleChoice",
    AnswerKind.RESPONSE: "AutoModelForCausalLM",
}


def load_with_head(name: str, task: FineTask) -> tuple[Any, Any]:
    """Model, in float32 and with a fresh head where the task needs one, and tokenizer.

    Raises :class:`~workbench.errors.ModelError` if the architecture has no such head.
    """
    auto = getattr(transformers, _AUTO[task.kind])
    tokenizer, location = load_tokenizer(name), locate(name)
    options: dict[str, Any] = {}
    if task.kind in (AnswerKind.CLASS, AnswerKind.TOKENS):
        options["id2label"] = dict(enumerate(task.labels))
        options["label2id"] = {label: i for i, label in enumerate(task.labels)}
    if task.kind is AnswerKind.NUMBER:
        options |= {"num_labels": 1, "problem_type": "regression"}
    try:
        model = auto.from_pretrained(
            location,
            dtype="float32",
            use_safetensors=True,
            ignore_mismatched_sizes=task.kind is not AnswerKind.RESPONSE,
            **options,
        )
    except (OSError, ValueError, KeyError) as error:
        reason = str(error).strip().splitlines()[0][:160]
        if "Unrecognized configuration class" in reason or "model identifier" in reason:
            reason = f"it has no head for {task.kind}; allowed: models of transformers' {_AUTO[task.kind]}"
        raise ModelError(f"{name} cannot be fine-tuned on {task.name}: {reason}") from error
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    tokenizer.padding_side = "right"
    if model.config.pad_token_id is None:
        model.config.pad_token_id = tokenizer.pad_token_id
    return model, tokenizer
