"""The runner: load a set's items, ask what is not stored yet, store rows as they come, compute the metrics."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pandas as pd

from challenge_sets._set import ChallengeSet, CheckSettings, Work, limit_note
from challenge_sets.suites.predict import PredictionFile
from challenge_sets.suites.suite_set import counted
from workbench.data import Dataset, check_ids
from workbench.errors import TaskError
from workbench.evaluate.doctor import self_check
from workbench.evaluate.metric_columns import not_scored
from workbench.models import LoadedModel
from workbench.runs import Run, RunFolder, RunRecord

__all__ = ["check"]


def check(
    subject: LoadedModel | PredictionFile,
    challenge: ChallengeSet,
    settings: CheckSettings,
    *,
    out: Path | str | None = None,
    resume: Path | str | None = None,
    batch_tokens: str | int = "auto",
    doctor: bool = True,
    progress: bool = False,
) -> Run:
    """Ask ``subject`` all items of ``challenge`` and store the run under ``out`` (default: ``runs/``).

    ``resume`` names the folder of a run that was cut short. Raises
    :class:`~workbench.errors.ModelError` if the set cannot be asked of this kind of model,
    :class:`~workbench.errors.TaskError` for the settings of another set, and
    :class:`~workbench.errors.DataError` for unreadable data.
    """
    settings = _settings_of(challenge, settings)
    if isinstance(subject, LoadedModel):
        subject.require(*challenge.kinds, verb=f"set {challenge.name}")
    data = challenge.load(settings)
    check_ids([item.id for item in data.items], f"set {challenge.name}")
    if isinstance(subject, PredictionFile):
        subject.check([example for item in data.items for example in item.examples()])
    policy = challenge.policy(subject, settings)
    record = _record(subject, challenge, settings, data, policy)
    folder = RunFolder.begin(record, out=out, resume=resume)
    if folder.complete:
        return Run.open(folder.path)
    folder.examine(self_check(subject, doctor) if isinstance(subject, LoadedModel) else None)
    seconds = _ask(
        subject, challenge, Work(data.items, settings, batch_tokens=batch_tokens, progress=progress), folder
    )
    order = [item.id for item in data.items]
    rows = pd.DataFrame(folder.rows()).set_index("id", drop=False).loc[order]
    ties = int(rows["tie"].sum()) if "tie" in rows else 0
    notes = {"policy": policy, "ties": ties, **counted(challenge.notes(settings), rows)}
    if (limited := limit_note(settings)) is not None:
        notes["limited"] = limited
    if (reason := not_scored(rows)) is not None:
        notes["not_scored"] = reason
    throughput = {"items": len(rows), "seconds": seconds, "items_per_second": len(rows) / max(seconds, 1e-9)}
    folder.finish(challenge.metrics(rows), throughput, notes, order=_order(rows))
    return Run.open(folder.path)


def _settings_of(challenge: ChallengeSet, settings: CheckSettings) -> CheckSettings:
    """The settings with the name of the set; a suite keeps the name that it was asked for by."""
    if settings.suite is None and settings.set not in ("", challenge.name):
        raise TaskError(
            f"the settings are those of set {settings.set!r}, the set is {challenge.name!r}; leave "
            "CheckSettings(set=...) out, it is filled in"
        )
    return replace(settings, set=settings.set or challenge.name)


def _order(rows: pd.DataFrame) -> list[str]:
    """Ids: failing examples first, the worst of them first, then the others as they are in the data."""
    items: list[str] = rows["id"].tolist()
    if "correct" not in rows or "margin" not in rows:
        return items
    failing = rows[rows["correct"].eq(False)].sort_values("margin", kind="stable")["id"].tolist()
    first = set(failing)
    return [*failing, *(name for name in items if name not in first)]


def _ask(
    subject: LoadedModel | PredictionFile, challenge: ChallengeSet, work: Work, folder: RunFolder
) -> float:
    """Store the rows of all items that have none yet; seconds that it took."""
    finished = folder.finished_ids()
    done = frozenset(place for place, item in enumerate(work.items) if item.id in finished)
    if len(done) == len(work.items):
        return 0.0
    return folder.append_all(challenge.rows(subject, replace(work, done=done)))


def _record(
    subject: LoadedModel | PredictionFile,
    challenge: ChallengeSet,
    settings: CheckSettings,
    data: Dataset[Any],
    policy: str,
) -> RunRecord:
    identity = _identity(subject)
    return RunRecord.new(
        "check",
        recipe={**settings.to_dict(), "version": challenge.version, "policy": policy},
        model=identity,
        data={challenge.name: asdict(data.identity)},
        seeds={"sampling": settings.seed},
        device=str(subject.device) if isinstance(subject, LoadedModel) else "cpu",
        label=f"{Path(identity['name']).stem}-{challenge.name}",
    )


def _identity(subject: LoadedModel | PredictionFile) -> dict[str, Any]:
    if isinstance(subject, PredictionFile):
        return {"name": str(subject.path), "kind": "predictions", "content_hash": subject.sha256}
    return subject.identity()
