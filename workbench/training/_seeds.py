"""A run of one or more seeds: each seed's work and its outcome, and what all of them say together."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from workbench.estimate import Estimate
from workbench.models.weights import content_hash
from workbench.runs import Run, RunFolder, RunRecord
from workbench.runs.trackers import LiveReport
from workbench.statistics import over_seeds
from workbench.terminal import say
from workbench.training._outcome import Outcome, read_outcome, seed_folder, store_outcome
from workbench.training._resumable import with_fewer_rows

__all__ = ["SeedJob", "metrics_over_seeds", "open_folder", "run_seed", "seed_notes", "throughput"]


@dataclass(frozen=True)
class SeedJob:
    """One seed's work: the model's name, the rows, the recipe, and where it is done."""

    name: str
    rows: Any
    settings: Any
    seed: int
    out: Path
    device: torch.device
    show: bool
    report: LiveReport

    @property
    def is_first(self) -> bool:
        """Whether this is the seed whose weights are kept in the run's folder."""
        return bool(self.seed == self.settings.seeds[0])

    @property
    def log(self) -> Path:
        """The seed's own log file."""
        return self.out / ("log.jsonl" if self.is_first else f"log-seed{self.seed}.jsonl")

    @property
    def folder(self) -> Path:
        """Where the seed's checkpoints lie until it is done."""
        return seed_folder(self.out, self.seed)


def open_folder(record: RunRecord, out: Path, found: Run | None) -> RunFolder:
    """A new run in ``out``, or the one ``found`` there; raises :class:`~workbench.errors.RunError` if it is another."""
    if found is not None:
        return RunFolder.resume(out, record.recipe, model=record.model, data=record.data)
    return RunFolder.create(out.parent, replace(record, id=out.name))


def run_seed(job: SeedJob, attempt: Callable[[int], Outcome], advice: str) -> Outcome:
    """What the seed gave before, or that of ``attempt`` with so many rows of a pass as memory allows."""
    outcome = read_outcome(job.out, job.seed)
    if outcome is None:
        outcome = with_fewer_rows(attempt, job.settings.batch_size, job.folder, advice=advice)
        store_outcome(job.out, job.seed, outcome)
        shutil.rmtree(job.folder, ignore_errors=True)
    if job.show:
        values = ", ".join(f"{name} {e.cells()[0]}" for name, e in outcome.metrics.items())
        say(f"seed {job.seed}: {values}")
    return outcome


def throughput(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Seconds, tokens, MiB and weights of all seeds, as a run stores them."""
    seconds, tokens = sum(o.seconds for o in outcomes), sum(o.tokens for o in outcomes)
    return {
        "seconds": seconds,
        "tokens": tokens,
        "tokens_per_second": tokens / seconds,
        "peak_memory_mib": max(o.memory for o in outcomes),
        "trained_parameters": outcomes[0].trained,
        "all_parameters": outcomes[0].parameters,
    }


def seed_notes(settings: Any, outcomes: Sequence[Outcome], out: Path) -> dict[str, Any]:
    """The first seed's notes, each seed's metrics, the learning rate, and the hash of the weights in ``out``."""
    seeds = {
        str(s): {n: e.value for n, e in o.metrics.items()}
        for s, o in zip(settings.seeds, outcomes, strict=True)
    }
    return {
        **outcomes[0].notes,
        "seeds": seeds,
        "learning_rate": settings.learning_rate(outcomes[0].parameters),
        "weights_sha256": content_hash(out.glob("*.safetensors")),
    }


def metrics_over_seeds(outcomes: Sequence[Outcome]) -> dict[str, Estimate]:
    """One seed's own intervals; of several, means with the error of the items and that of the seeds."""
    if len(outcomes) == 1:
        return outcomes[0].metrics
    return {name: over_seeds([o.metrics[name] for o in outcomes]).total for name in outcomes[0].metrics}
