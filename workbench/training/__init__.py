"""Training: objectives, pre-training, fine-tuning, adapters, distillation."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# transformers' Trainer takes seconds to import; the names are fetched when first used
_HOMES = {
    "TrainSettings": "workbench.training.settings",
    "train": "workbench.training.pretrain",
}

__all__ = ["TrainSettings", "train"]

if TYPE_CHECKING:
    from workbench.training.pretrain import train
    from workbench.training.settings import TrainSettings


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'workbench.training' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
