"""Readers of evaluation data: from a local folder, the hub, or bundled with this package."""

from __future__ import annotations

from workbench.data._dataset import DataIdentity, Dataset, check_ids, content_hash, spread
from workbench.data.lambada import LAMBADA_VARIANTS, Passage, read_lambada, split_target

__all__ = [
    "LAMBADA_VARIANTS",
    "DataIdentity",
    "Dataset",
    "Passage",
    "check_ids",
    "content_hash",
    "read_lambada",
    "split_target",
    "spread",
]
