"""Where runs lie, and how a user names one."""

from __future__ import annotations

import os
import re
from pathlib import Path

from workbench.errors import RunError, did_you_mean

__all__ = ["check_run_id", "default_root", "find_run"]


def default_root() -> Path:
    """``WORKBENCH_RUNS`` if set, else ``runs`` in the current folder."""
    return Path(os.environ.get("WORKBENCH_RUNS") or "runs")


def check_run_id(name: str) -> str:
    """``name`` if it is a plain folder name; raises :class:`~workbench.errors.RunError` if not."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}", name) or ".." in name:
        raise RunError(
            f"{name!r:.80} is not a run id: letters, digits, '.', '_' and '-' only, such as "
            "20261127-214501-smollm2-135m-lambada_sample-1a2b; a path to a run folder is fine too"
        )
    return name


def find_run(name: str | Path, root: Path | None = None) -> Path:
    """The folder of a run given by path or by id under ``root`` (default :func:`default_root`).

    Raises :class:`~workbench.errors.RunError` with the nearest ids if there is none.
    """
    path = Path(name)
    try:
        if (path / "run.json").is_file():
            return path
        if path.is_dir() or len(path.parts) > 1:
            problem = "holds no run.json" if path.is_dir() else "does not exist"
            raise RunError(f"{path} is not a run folder: it {problem}; list runs with: workbench runs")
        root = root or default_root()
        found = root / check_run_id(str(name))
        if (found / "run.json").is_file():
            return found
        known = sorted(p.parent.name for p in root.glob("*/run.json"))
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror or error}") from error
    hint = did_you_mean(str(name), known) if known else "there are no runs there"
    raise RunError(f"no run {str(name)!r:.200} in {root}; {hint}")
