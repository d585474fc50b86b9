"""The cells of a grid as tasks of a Ray cluster, or of a few processes of this machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from workbench.errors import ConfigError, needs_extra
from workbench.evaluate.grid_cells import Cell, CellResult, run_cell, stored_run

__all__ = ["run_on_ray"]

# Cells pass through Ray's object store as a few hundred bytes; the smallest store it accepts is plenty.
_STORE_BYTES = 80 * 2**20


def run_on_ray(
    work: Sequence[tuple[Cell, Path | None]],
    out: Path,
    workers: int,
    address: str | None,
    tell: Callable[[CellResult], None],
) -> dict[Cell, CellResult]:
    """Run cells side by side. A Ray that runs already is used and left running; one started here is stopped.

    A worker that dies (out of memory, a lost machine) is tried once more, going on where its run folder ends.
    Raises :class:`~workbench.errors.ConfigError` where Ray is not installed or the cluster does not answer.
    """
    if find_spec("ray") is None:
        raise ConfigError(needs_extra("--engine ray", "ray", "ray"))
    if not work:
        return {}
    import ray

    own = not ray.is_initialized()
    if own:
        _start(ray, workers, address)
    try:
        return _collect(ray, work, out.resolve(), workers, tell)
    finally:
        if own:
            ray.shutdown()


def _start(ray: Any, workers: int, address: str | None) -> None:
    options: dict[str, Any] = {"include_dashboard": False, "log_to_driver": False, "configure_logging": False}
    if address is None:
        options |= {"num_cpus": workers, "object_store_memory": _STORE_BYTES}
    else:
        options = {"address": address, "log_to_driver": False, "configure_logging": False}
    try:
        ray.init(**options)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise ConfigError(f"cannot use the Ray cluster at {address or 'this machine'}: {error}") from error


def _collect(
    ray: Any,
    work: Sequence[tuple[Cell, Path | None]],
    out: Path,
    workers: int,
    tell: Callable[[CellResult], None],
) -> dict[Cell, CellResult]:
    gpus = 1 if ray.cluster_resources().get("GPU") else 0
    remote = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=1)(_on_worker)
    waiting = {
        remote.remote(cell, str(out), None if resume is None else str(resume.resolve())): cell
        for cell, resume in work
    }
    done: dict[Cell, CellResult] = {}
    while waiting:
        (ready,), _ = ray.wait(list(waiting), num_returns=1)
        cell = waiting.pop(ready)
        try:
            done[cell] = ray.get(ready)
        except ray.exceptions.RayError as error:
            done[cell] = CellResult(cell, problem=f"the worker failed: {' '.join(str(error).split())[-200:]}")
        tell(done[cell])
    return done


def _on_worker(cell: Cell, out: str, resume: str | None) -> CellResult:
    """What a worker runs: one cell, on one thread, as it may share its machine with others."""
    import torch

    torch.set_num_threads(1)
    folder = Path(out)
    # On a second try the first one's run folder is there.
    found = stored_run(cell, folder) if resume is None else None
    return run_cell(cell, folder, found.path if found else Path(resume) if resume else None)
