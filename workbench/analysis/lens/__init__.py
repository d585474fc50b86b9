"""Lenses: what a model would say if it stopped at an earlier layer."""

from __future__ import annotations

from workbench.analysis.lens._read import LensReading, continuation_by_layer, logit_lens
from workbench.analysis.lens._tokens import TargetToken, target_token

__all__ = ["LensReading", "TargetToken", "continuation_by_layer", "logit_lens", "target_token"]
