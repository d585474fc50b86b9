"""The recipe of an evaluation: everything that its numbers depend on, beside model and data themselves."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from workbench.choices import member
from workbench.errors import ConfigError
from workbench.evaluate._options import TaskOptions
from workbench.scoring import Boundary, FirstToken

__all__ = ["EvaluateSettings"]


@dataclass(frozen=True, kw_only=True)
class EvaluateSettings(TaskOptions):
    """What to evaluate and how. ``limit`` takes the first items of each task; ``seed`` draws the resamples.

    ``first_token`` says what the first token of a text is predicted from, where nothing stands before it
    (see :class:`workbench.scoring.FirstToken`), ``boundary`` where a continuation begins
    (:class:`workbench.scoring.Boundary`), ``keep_bos`` whether BOS stays in front of what is truncated or read in
    windows (:class:`workbench.scoring.Engine`); the rest is explained in :class:`TaskOptions`.
    Raises :class:`~workbench.errors.ConfigError`.
    """

    tasks: tuple[str, ...]
    first_token: str = "auto"
    boundary: Boundary = Boundary.JOINT
    keep_bos: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        member(FirstToken, self.first_token, "first-token policy")
        if not self.tasks:
            raise ConfigError("no task named; see workbench tasks")

    @property
    def folder(self) -> Path | None:
        """The data folder as a path."""
        return Path(self.data_dir) if self.data_dir is not None else None

    @property
    def options(self) -> TaskOptions:
        """What the tasks are asked to do differently from their own way."""
        return TaskOptions(**{field.name: getattr(self, field.name) for field in fields(TaskOptions)})

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionary for the run's recipe."""
        return {
            **asdict(self),
            "tasks": list(self.tasks),
            "boundary": str(self.boundary),
            "special_tokens": str(self.special_tokens),
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> EvaluateSettings:
        """The inverse of :meth:`to_dict`."""
        return cls(**{**values, "tasks": tuple(values["tasks"])})
