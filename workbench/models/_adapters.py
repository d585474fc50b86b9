"""Folders that hold a PEFT adapter beside its base model: prompt and prefix tuning, which cannot be merged."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import torch

from workbench.errors import ModelError
from workbench.models._loaded import Kind

__all__ = ["has_adapter", "load_with_adapter"]

_TASKS = {
    "SEQ_CLS": (Kind.CLASSIFIER, "AutoModelForSequenceClassification"),
    "TOKEN_CLS": (Kind.CLASSIFIER, "AutoModelForTokenClassification"),
    "QUESTION_ANS": (Kind.CLASSIFIER, "AutoModelForQuestionAnswering"),
    "CAUSAL_LM": (Kind.CAUSAL, "AutoModelForCausalLM"),
    "SEQ_2_SEQ_LM": (Kind.SEQ2SEQ, "AutoModelForSeq2SeqLM"),
}


def has_adapter(folder: Path) -> bool:
    """Whether the folder holds an adapter."""
    return (folder / "adapter_config.json").is_file()


def load_with_adapter(folder: Path, dtype: torch.dtype) -> tuple[Kind, Any]:
    """The base model, from ``base`` inside ``folder`` or where the adapter says, with the adapter around it.

    Raises :class:`~workbench.errors.ModelError` without peft, or for a task that is not known.
    """
    import transformers

    try:
        from peft import PeftModel
    except ImportError:
        raise ModelError(
            f"{folder} holds an adapter, which needs the package peft: pip install peft"
        ) from None
    settings = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    task = settings.get("task_type")
    if task not in _TASKS:
        raise ModelError(f"{folder}: adapter for task {task!r}; allowed: {', '.join(_TASKS)}")
    kind, auto = _TASKS[task]
    base = folder / "base" if (folder / "base").is_dir() else settings["base_model_name_or_path"]
    model = getattr(transformers, auto).from_pretrained(base, dtype=dtype, use_safetensors=True)
    with warnings.catch_warnings():  # peft asks transformers by a name that is on its way out
        warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
        return kind, PeftModel.from_pretrained(model, folder)
