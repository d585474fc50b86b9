"""Where a name is known that a verb does not know: the suite ``sentiment`` is no task, but ``check`` has it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from workbench.errors import UnknownName, WorkbenchError

__all__ = ["elsewhere"]


def elsewhere(error: WorkbenchError) -> str:
    """What to add to ``error``: the verb that has the unknown name, or nothing."""
    if not isinstance(error, UnknownName):
        return _as_set(error)
    for noun, names, command in _HOMES:
        if error.name in names():
            return f"; {error.name!r} is a {noun}: workbench {command.format(error.name)}"
    return ""


def _as_set(error: WorkbenchError) -> str:
    from challenge_sets.sets.own import is_own_set
    from workbench.evaluate.tasks.table_task import UnknownForm

    if isinstance(error, UnknownForm) and is_own_set(error.where):
        return f"; it is a challenge set: workbench check MODEL --set {error.where}"
    return ""


def _tasks() -> Sequence[str]:
    from workbench.evaluate import GROUPS, TASKS

    return [*TASKS, *GROUPS]


def _sets() -> Sequence[str]:
    from challenge_sets import set_names

    return set_names()


def _suites() -> Sequence[str]:
    from challenge_sets.suite import suite_names

    return suite_names()


def _probe_tasks() -> Sequence[str]:
    from probes import TASKS

    return TASKS.names()


def _methods() -> Sequence[str]:
    from workbench.analysis.saliency import METHODS

    return METHODS.names()


_HOMES: tuple[tuple[str, Callable[[], Sequence[str]], str], ...] = (
    ("set", _sets, "check MODEL --set {}"),
    ("task", _tasks, "evaluate MODEL --task {}"),
    ("suite", _suites, "check MODEL --suite {}"),
    ("probing task", _probe_tasks, "probe MODEL --task {}"),
    ("saliency method", _methods, "attribute MODEL TEXT --method {}"),
)
