"""What the numbers of a classification head mean: one label of several, several labels at once, or a number."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import torch
from torch import Tensor

from workbench.errors import TaskError

__all__ = ["ProblemType", "log_probabilities", "problem_of"]


class ProblemType(StrEnum):
    """The values of ``problem_type`` in a model's configuration."""

    ONE_LABEL = "single_label_classification"
    LABEL_SET = "multi_label_classification"
    NUMBER = "regression"


def problem_of(model: Any) -> ProblemType:
    """What a transformers model's head was trained for, as its configuration says.

    One output without a ``problem_type`` is a number, as transformers trains it. Heads for tokens, spans and choices
    decide for one label.
    """
    if not type(model).__name__.endswith("ForSequenceClassification"):
        return ProblemType.ONE_LABEL
    stated = model.config.problem_type
    if stated == ProblemType.LABEL_SET:
        return ProblemType.LABEL_SET
    is_number = stated == ProblemType.NUMBER or model.config.num_labels == 1
    return ProblemType.NUMBER if is_number else ProblemType.ONE_LABEL


def log_probabilities(logits: Tensor, problem: ProblemType) -> Tensor:
    """Natural logarithms of the probabilities of labels (..., L): of a softmax, or of a sigmoid for each label.

    Raises :class:`~workbench.errors.TaskError` for a number, which is no probability.
    """
    if problem is ProblemType.NUMBER:
        raise TaskError("this head predicts a number (regression), which has no probability; use its logit")
    if problem is ProblemType.LABEL_SET:
        return torch.nn.functional.logsigmoid(logits)
    return logits.log_softmax(-1)
