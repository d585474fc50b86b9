"""A check in one call, of a set or suite by its name: ``workbench.check``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from challenge_sets import _runner
from challenge_sets._set import ChallengeSet, CheckSettings
from challenge_sets.diagnostics import SETS
from challenge_sets.suite import load_suites, suite_names, suite_set
from challenge_sets.suites.predict import PredictionFile
from workbench.errors import UnknownName
from workbench.models import LoadedModel, as_model
from workbench.records import settings_of, takes_fields_of
from workbench.runs import Run

__all__ = ["check", "find_challenge"]


@takes_fields_of(CheckSettings)
def check(
    model: LoadedModel | PredictionFile | str,
    challenge: ChallengeSet | str,
    settings: CheckSettings | None = None,
    *,
    out: Path | str | None = None,
    resume: Path | str | None = None,
    batch_tokens: str | int = "auto",
    doctor: bool = True,
    progress: bool = False,
    **options: Any,
) -> Run:
    """Check a model on a challenge set or a suite of behavioural tests, and store the run.

    Args:
        model: a loaded model or its name; or a file of predictions, for a suite.
        challenge: the name of a set ("blimp", "pairs_builtin", ...) or suite ("sentiment"), a suite's file, or a set.
        settings: the recipe; or name its fields as keywords.
        out: the folder that gets the run folder; ``runs/`` by default.
        resume: the folder of a run that was cut short.
        batch_tokens: tokens of one forward pass, padding included.
        doctor: examine the model first, and store the verdict.
        progress: show a bar.
        **options: fields of :class:`CheckSettings`, such as ``limit=40``.

    Raises:
        TaskError: an unknown set or suite.
        ModelError: the set cannot be asked of this kind of model.
        DataError: unreadable data.

    Example:
        ```python
        import workbench

        run = workbench.check("novels-decoder", "pairs_builtin", limit=40)
        print(run.to_frame())
        ```
    """
    recipe = settings_of(CheckSettings, settings, options)
    if isinstance(challenge, str):
        recipe = _named(challenge, recipe)
    return _runner.check(
        as_model(model) if isinstance(model, str) else model,
        find_challenge(challenge) if isinstance(challenge, str) else challenge,
        recipe,
        out=out,
        resume=resume,
        batch_tokens=batch_tokens,
        doctor=doctor,
        progress=progress,
    )


def find_challenge(name: str) -> ChallengeSet:
    """The challenge set called ``name``, or the suite of that name, file or folder.

    Raises :class:`~workbench.errors.UnknownName` with the nearest names of both.
    """
    if name in SETS:
        return SETS.get(name)
    try:
        return suite_set(load_suites(name))
    except UnknownName:
        known = [*SETS.names(), *suite_names()]
        raise UnknownName("set or suite", name, known, "or give a suite's file or folder") from None


def _named(name: str, settings: CheckSettings) -> CheckSettings:
    """With the suite as it was named; a suite in a file goes by the name that it gives itself."""
    if name in SETS:
        return settings
    return replace(settings, suite=name, set=settings.set or ("" if Path(name).is_file() else name))
