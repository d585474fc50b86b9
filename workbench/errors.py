"""Exceptions. Each one is a mistake that a user can mend: the CLI prints its one line and exits with 2."""

from __future__ import annotations

__all__ = [
    "ConfigError",
    "DataError",
    "ModelError",
    "NumericsError",
    "RunError",
    "TaskError",
    "TooLong",
    "TraceError",
    "UnknownName",
    "WorkbenchError",
    "WorkbenchWarning",
    "did_you_mean",
    "needs_extra",
]


class WorkbenchError(Exception):
    """Base of all errors shown to users: what was wrong, the value, what is allowed, what to do next."""


class WorkbenchWarning(UserWarning):
    """What a user should know of a result that is given all the same; the command line prints it as a note."""


class ModelError(WorkbenchError):
    """A model cannot be found, loaded, or used for what was asked."""


class DataError(WorkbenchError):
    """A data file is missing, unreadable, or not in its format; the message names file and line."""


class TooLong(DataError):
    """A text has more tokens than the model reads."""


class TaskError(WorkbenchError):
    """A task, suite, probe, method or metric is unknown or asked of the wrong kind of model."""


class UnknownName(TaskError):
    """A name that is not among those known: ``noun`` says of what, :attr:`name` is what was given."""

    def __init__(self, noun: str, name: str, allowed: list[str], otherwise: str = "") -> None:
        near = did_you_mean(name, allowed)
        end = f"{'' if near.endswith('?') else ';'} {otherwise}" if otherwise else ""
        super().__init__(f"unknown {noun} {name!r:.80}; {near}{end}")
        self.name = name


class TraceError(WorkbenchError):
    """Something was asked of a trace that it did not record, or that is out of range."""


class RunError(WorkbenchError):
    """A run folder is missing, half-written, of another schema, or cannot be written."""


class ConfigError(WorkbenchError, ValueError):
    """A configuration is inconsistent; the message names field, value and allowed values."""


class NumericsError(WorkbenchError):
    """A model produced NaN or infinite numbers."""


def did_you_mean(name: str, allowed: list[str], count: int = 3) -> str:
    """The nearest allowed names as a phrase: ``did you mean 'a' or 'b'?``.

    Where none is near, the allowed names; of more than a dozen only the nearest five, and how many there are.
    """
    from difflib import get_close_matches

    near = get_close_matches(name[:_LONGEST], allowed, n=count, cutoff=0.5)
    if near:
        return "did you mean " + " or ".join(repr(n) for n in near) + "?"
    if len(allowed) <= _LISTED:
        return "known: " + ", ".join(sorted(allowed))
    nearest = get_close_matches(name[:_LONGEST], allowed, n=5, cutoff=0.0)
    return f"nearest of {len(allowed)}: {', '.join(nearest)}"


_LISTED = 12
_LONGEST = 200  # characters of a name that are compared: matching takes time quadratic in them


def needs_extra(what: str, package: str, extra: str) -> str:
    """One line for ``what`` a base install cannot do: the package that it lacks, and the extra that holds it."""
    return f"{what} needs the package {package}: pip install 'transformer-workbench[{extra}]'"
