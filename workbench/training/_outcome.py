"""What one seed's training gave and needed, kept beside the run until all seeds are done."""

from __future__ import annotations

import json
import resource
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from workbench.errors import RunError
from workbench.estimate import Estimate
from workbench.runs import write_atomically

__all__ = ["Outcome", "peak_mib", "read_outcome", "seed_folder", "store_outcome"]


@dataclass(frozen=True)
class Outcome:
    """Metrics, what was answered to each row, cost in seconds, MiB and tokens, weights trained and all.

    ``answers`` are plain values, as JSON keeps them: (predicted, gold) as texts, or a mapping of scores. ``notes`` are
    what else the run should say.
    """

    metrics: dict[str, Estimate]
    answers: tuple[Any, ...]
    seconds: float
    memory: float
    trained: int
    parameters: int
    tokens: int
    notes: dict[str, Any] = field(default_factory=dict)


def seed_folder(out: Path, seed: int) -> Path:
    """Where a seed's checkpoints lie until it is done."""
    return out / "seeds" / f"seed-{seed}"


def _file(out: Path, seed: int) -> Path:
    return out / "seeds" / f"seed-{seed}.json"


def store_outcome(out: Path, seed: int, outcome: Outcome) -> None:
    """Keep it: the seed is done."""
    content = {**asdict(outcome), "metrics": {n: e.to_dict() for n, e in outcome.metrics.items()}}
    _file(out, seed).parent.mkdir(exist_ok=True)
    write_atomically(_file(out, seed), json.dumps(content).encode())


def read_outcome(out: Path, seed: int) -> Outcome | None:
    """The outcome of a seed that is done; raises :class:`~workbench.errors.RunError` if its file is damaged."""
    try:
        content = json.loads(_file(out, seed).read_text(encoding="utf-8"))
        metrics = {name: Estimate.from_dict(values) for name, values in content.pop("metrics").items()}
        answers = tuple(tuple(a) if isinstance(a, list) else a for a in content.pop("answers"))
        return Outcome(metrics=metrics, answers=answers, **content)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise RunError(
            f"{_file(out, seed)} is damaged ({error}); remove it to train this seed again"
        ) from error


def peak_mib(device: torch.device) -> float:
    """The most memory used so far, in MiB: of the card, or of this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10
