"""A trace read back is the trace that was written."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.trace import tiny
from workbench.errors import TraceError
from workbench.trace import load_trace, save_trace, trace


def test_round_trip(tmp_path):
    told = []
    before = trace(tiny.t5(), ["the cat sat", "a dog"], {"attention", "hidden"}, targets=["a mat", "on"])
    save_trace(before, tmp_path / "kept", told.append)
    after = load_trace(tmp_path / "kept")
    assert told == [f"writing {before.nbytes / 2**20:.1f} MiB to {tmp_path / 'kept'}"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["kept"]  # no temporary folder left
    assert (after.model, after.kind, after.layers, after.recorded) == (
        before.model,
        before.kind,
        before.layers,
        before.recorded,
    )
    for one, other in zip(before, after, strict=True):
        assert (one.alignment, one.source, one.truncated) == (other.alignment, other.source, other.truncated)
        assert one.arrays().keys() == other.arrays().keys()
        for name, array in one.arrays().items():
            np.testing.assert_array_equal(array, other.get(name))


def test_refusals(tmp_path):
    found = trace(tiny.bert(), ["the cat"])
    with pytest.raises(TraceError, match="exists already"):
        save_trace(found, tmp_path, lambda line: None)
    with pytest.raises(TraceError, match="no trace in"):
        load_trace(tmp_path)
    (tmp_path / "trace.json").write_text('{"schema": 99}')
    with pytest.raises(TraceError, match="no trace in"):
        load_trace(tmp_path)
