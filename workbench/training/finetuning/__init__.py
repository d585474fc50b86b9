"""Fine-tuning: heads, methods, tasks."""

from __future__ import annotations

from workbench.training.finetuning.conversations import pack
from workbench.training.finetuning.finetune import finetune
from workbench.training.finetuning.methods import Method
from workbench.training.finetuning.settings import FineSettings
from workbench.training.finetuning.tasks import AnswerKind, FineTask, TaskRows, load_task

__all__ = ["AnswerKind", "FineSettings", "FineTask", "Method", "TaskRows", "finetune", "load_task", "pack"]
