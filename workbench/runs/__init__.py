"""Run folders: what was run, on what, with which results and examples; written so that a kill loses nothing.

A folder holds ``run.json`` (:class:`RunRecord`), ``results.json`` (task -> metric -> Estimate; its presence
marks the run complete), ``examples.parquet``, optionally ``arrays.safetensors``, and ``figures/``. While the
run goes on, ``chunks/`` holds the finished examples.
"""

from __future__ import annotations

from workbench.runs._environment import describe_device, describe_environment
from workbench.runs._files import (
    default_root,
    find_run,
    make_folder,
    read_arrays,
    read_json,
    write_arrays,
    write_atomically,
    write_json,
)
from workbench.runs._folder import RunFolder, same_work
from workbench.runs._record import SCHEMA_VERSION, RunRecord, new_run_id
from workbench.runs._run import (
    Run,
    RunState,
    RunSummary,
    as_run,
    list_runs,
    reads_runs,
    shape_checked,
    stored_work,
)

__all__ = [
    "SCHEMA_VERSION",
    "Run",
    "RunFolder",
    "RunRecord",
    "RunState",
    "RunSummary",
    "as_run",
    "default_root",
    "describe_device",
    "describe_environment",
    "find_run",
    "list_runs",
    "make_folder",
    "new_run_id",
    "read_arrays",
    "read_json",
    "reads_runs",
    "same_work",
    "shape_checked",
    "stored_work",
    "write_arrays",
    "write_atomically",
    "write_json",
]
