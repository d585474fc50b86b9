"""Lenses: what a model would say if it stopped at an earlier layer."""

from __future__ import annotations

from workbench.analysis.lens._read import LensReading, continuation_by_layer, logit_lens
from workbench.analysis.lens._tokens import TargetToken, different_targets, target_token
from workbench.analysis.lens._train import train_tuned_lens
from workbench.analysis.lens._tuned import (
    TunedLens,
    TunedLensRecord,
    find_tuned_lens,
    load_tuned_lens,
    save_tuned_lens,
    tuned_lens,
    tuned_lens_folder,
)

__all__ = [
    "LensReading",
    "TargetToken",
    "TunedLens",
    "TunedLensRecord",
    "continuation_by_layer",
    "different_targets",
    "find_tuned_lens",
    "load_tuned_lens",
    "logit_lens",
    "save_tuned_lens",
    "target_token",
    "train_tuned_lens",
    "tuned_lens",
    "tuned_lens_folder",
]
