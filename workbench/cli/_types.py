"""Types of arguments: what a value may be is said before anything is loaded."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

from workbench.errors import UnknownName, WorkbenchError
from workbench.paths import user_path
from workbench.records import LARGEST_SEED

__all__ = ["BUDGET", "COUNT", "INDEX", "NUMBER", "PATH", "PLACE", "SEED", "SEEDS", "Named", "Whole"]


class _Path(click.ParamType):  # type: ignore[type-arg]  # not generic before click 8.2
    """A path that a file system can hold."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The path; fails in one line for one that no file can have."""
        try:
            return user_path(value)
        except WorkbenchError as error:
            self.fail(str(error), param, ctx)


class Whole(click.ParamType):  # type: ignore[type-arg]  # not generic before click 8.2
    """A whole number from ``low`` to ``high``."""

    name = "integer"

    def __init__(self, low: int, high: int = 2**63 - 1) -> None:
        self.low, self.high = low, high

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number; fails in one line for anything else."""
        try:
            number = int(value)
        except ValueError:
            self.fail(f"{value!r:.40} is not a whole number", param, ctx)
        if not self.low <= number <= self.high:
            allowed = f"{self.low} or more" if self.high == 2**63 - 1 else f"{self.low} to {self.high}"
            self.fail(f"{value!s:.40} is out of range; allowed: {allowed}", param, ctx)
        return number


class _Number(click.ParamType):  # type: ignore[type-arg]  # not generic before click 8.2
    """A finite number."""

    name = "float"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number; fails in one line for anything else, NaN and infinity included."""
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            self.fail(f"{value!r:.40} is not a finite number", param, ctx)
        return number


class Named(click.ParamType):  # type: ignore[type-arg]
    """One of ``names``, which are asked for (and their module imported) only where a value is given."""

    name = "text"

    def __init__(self, noun: str, names: Callable[[], Iterable[str]]) -> None:
        self.noun, self.names = noun, names

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name; raises :class:`~workbench.errors.UnknownName` with the nearest for any other."""
        if param is not None and value == param.default:
            return str(value)
        names = list(map(str, self.names()))
        if value not in names:
            raise UnknownName(self.noun, str(value), names)
        return str(value)


class _Seeds(click.ParamType):  # type: ignore[type-arg]
    """Seeds separated by commas."""

    name = "text"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """The seeds, each once; fails in one line for anything else."""
        words = [word.strip() for word in str(value).split(",") if word.strip()]
        if not words:
            self.fail(f"no seed in {value!r:.40}; write 0,1,2", param, ctx)
        seeds = tuple(SEED.convert(word, param, ctx) for word in words)
        return tuple(dict.fromkeys(seeds))


class _Budget(click.ParamType):  # type: ignore[type-arg]
    """``auto``, or a number of tokens."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str | int:
        """``auto`` or the number; fails in one line for anything else."""
        return "auto" if value == "auto" else COUNT.convert(value, param, ctx)


BUDGET = _Budget()
PATH = _Path()
SEEDS = _Seeds()
NUMBER = _Number()
SEED = Whole(0, LARGEST_SEED)
COUNT = Whole(1)
INDEX = Whole(0, 2**31 - 1)
"""A layer, head or place, counted from 0."""
PLACE = Whole(-(2**31), 2**31 - 1)
"""The same, or counted from the end: -1 is the last."""
