"""Probes as rewards."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from probes.run import open_report
from workbench.errors import RunError
from workbench.runs import Run

__all__ = ["probe_reward"]


def probe_reward(run: str) -> NoReturn:
    """Refuse ``probe:RUN``: a run of ``workbench probe`` stores what its probes predicted, not their weights.

    Raises :class:`~workbench.errors.RunError` always; for what is no finished run of ``workbench probe``, as
    :func:`~probes.run.open_report` does.
    """
    report = open_report(Run.open(Path(run)))
    raise RunError(
        f"{run} holds predictions of its {report.probe} probe on {report.task}, not its weights, so no reply can be "
        "scored by it; give a classifier instead (model:NAME#LABEL, trained by workbench finetune)"
    )
