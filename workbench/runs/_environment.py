"""What a number depends on besides model and data: package versions, source revision, machine."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

__all__ = ["describe_device", "describe_environment", "git_revision", "package_versions"]

_PACKAGES = (
    "transformer-workbench",
    "torch",
    "transformers",
    "tokenizers",
    "safetensors",
    "numpy",
    "scipy",
    "pandas",
    "pyarrow",
    "datasets",
    "scikit-learn",
    "peft",
    "accelerate",
)


def describe_environment(device: str = "cpu") -> dict[str, Any]:
    """The fields ``git_revision``, ``packages`` and ``device`` of a :class:`RunRecord`, for this process."""
    return {
        "git_revision": git_revision(),
        "packages": package_versions(),
        "device": describe_device(device),
    }


def package_versions() -> dict[str, str]:
    """Versions of Python, of this package and of the installed packages that numbers depend on."""
    versions = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def git_revision() -> str | None:
    """Commit of the checkout this package runs from, with ``+changes`` if files differ; else ``None``."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    revision = _git(root, "rev-parse", "HEAD")
    if not revision:
        return None
    return revision + ("+changes" if _git(root, "status", "--porcelain", "--untracked-files=no") else "")


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def describe_device(device: str = "cpu") -> dict[str, Any]:
    """Name of the compute device, the processor, usable cores and threads, and the operating system."""
    import torch

    name = torch.cuda.get_device_name(device) if device.startswith("cuda") else _cpu_name()
    return {
        "type": device,
        "name": name,
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": torch.get_num_threads(),
        "platform": platform.platform(),
    }


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
