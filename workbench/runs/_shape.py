"""Runs that were changed by hand: what a reader stumbles over in them is the user's mistake, not a defect."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from workbench.errors import RunError, WorkbenchError
from workbench.runs._run import Run

__all__ = ["reads_runs", "shape_checked"]

P = ParamSpec("P")
T = TypeVar("T")


@contextmanager
def shape_checked(runs: Run | Sequence[Run]) -> Iterator[None]:
    """Errors while ``runs`` are read become one line, if one of them is not verified to be as it was written.

    What notes, recipes and examples hold is known to the verb that wrote them, and no schema says it. Of a run
    whose checksums match, an error is a defect of the reader and stays what it is.
    """
    several = [runs] if isinstance(runs, Run) else runs
    try:
        yield
    except WorkbenchError:
        raise
    except Exception as error:
        changed = [str(run.path) for run in several if not run.verified]
        if not changed:
            raise
        said = " ".join(f"{type(error).__name__}: {error}".split())[:120]
        raise RunError(
            f"{', '.join(changed)}: notes, recipe or examples are not of the shape that workbench writes ({said}); "
            "undo what was changed by hand, or run again"
        ) from error


def reads_runs(function: Callable[P, T]) -> Callable[P, T]:
    """A function whose first argument is one stored run or several, with :func:`shape_checked` around it."""

    @wraps(function)
    def checked(*arguments: P.args, **options: P.kwargs) -> T:
        first: Any = arguments[0] if arguments else options.get("runs", options.get("run", ()))
        with shape_checked(first):
            return function(*arguments, **options)

    return checked
