"""Training: objectives, pre-training, fine-tuning, adapters, distillation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.rooms import lazy_names

# transformers' Trainer takes seconds to import; the names are fetched when first used
_HOMES = {
    "TrainSettings": "workbench.training.settings",
    "train": "workbench.training.pretrain",
}

__all__ = ["TrainSettings", "train"]

if TYPE_CHECKING:
    from workbench.training.pretrain import train
    from workbench.training.settings import TrainSettings

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
