"""Lenses: what a model would say if it stopped at an earlier layer."""

from __future__ import annotations

from workbench.analysis.lens._logit_lens import (
    LensReading,
    TargetToken,
    continuation_by_layer,
    continuation_trajectory,
    different_targets,
    logit_lens,
    target_token,
)
from workbench.analysis.lens._tuned_lens import (
    TunedLens,
    TunedLensRecord,
    find_tuned_lens,
    lens,
    load_tuned_lens,
    save_tuned_lens,
    train_tuned_lens,
    tuned_lens,
    tuned_lens_folder,
)

__all__ = [
    "LensReading",
    "TargetToken",
    "TunedLens",
    "TunedLensRecord",
    "continuation_by_layer",
    "continuation_trajectory",
    "different_targets",
    "find_tuned_lens",
    "lens",
    "load_tuned_lens",
    "logit_lens",
    "save_tuned_lens",
    "target_token",
    "train_tuned_lens",
    "tuned_lens",
    "tuned_lens_folder",
]
