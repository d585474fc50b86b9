"""Finished runs written without any model, for tests of what reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from workbench.estimate import Estimate
from workbench.runs import Run, RunFolder, RunRecord
from workbench.statistics import bootstrap


def store(
    root: Path,
    name: str,
    rows: Sequence[Mapping[str, Any]],
    *,
    task: str = "toy",
    results: Mapping[str, Estimate] | None = None,
    sha256: str = "a" * 64,
) -> Run:
    """A finished run of ``task``; without ``results`` its accuracy is the mean of the column ``correct``."""
    record = RunRecord.new(
        "evaluate",
        recipe={"tasks": [task]},
        model={"name": name, "content_hash": name},
        data={task: {"name": task, "sha256": sha256, "rows": len(rows)}},
        seeds={},
        label=name,
    )
    folder = RunFolder.create(root, record)
    folder.append([{"task": task, **row} for row in rows])
    if results is None:
        results = {"accuracy": bootstrap([float(row["correct"]) for row in rows], seed=0, resamples=50)}
    folder.finish({task: results}, {})
    return Run.open(folder.path)


def right_or_wrong(pattern: str) -> list[dict[str, Any]]:
    """Rows from a string of 1 and 0."""
    return [{"id": f"toy-{i}", "correct": mark == "1"} for i, mark in enumerate(pattern)]
