from __future__ import annotations

import pytest

from workbench.runs import RunRecord

RECIPE = {"task": "toy", "limit": 3}
MODEL = {"name": "tiny", "content_hash": "abc", "dtype": "float32"}
DATA = {"toy": {"name": "toy", "sha256": "def", "source": "here"}}


@pytest.fixture
def record():
    return RunRecord.new("evaluate", recipe=RECIPE, model=MODEL, data=DATA, seeds={"s": 0}, label="tiny-toy")
