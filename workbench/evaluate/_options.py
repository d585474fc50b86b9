"""What a user may set for a task, beside model and data."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from workbench.errors import ConfigError
from workbench.text import PromptFormat

__all__ = ["Split", "TaskOptions"]

Split = Literal["train", "validation", "test"]
_OF_ALL = ("seed", "limit", "data_dir", "special_tokens")
_SPLITS = ("train", "validation", "test")


@dataclass(frozen=True, kw_only=True)
class TaskOptions(PromptFormat):
    """The defaults stand for the task's own. A task says in ``accepts`` which of these it knows.

    ``shots`` examples stand before each question, drawn with ``seed``; ``chat`` makes the prompt one user message in
    the model's chat format, behind a ``system`` message where one is given; ``split`` is the part of the data;
    ``stride`` the tokens scored in each window of a long text; ``judge`` the classifier that rates generated text.
    Challenge sets and suites take the first ``limit_per_paradigm`` items of each paradigm (of each test, in suites);
    ``convention``, ``reduction`` and ``masking`` say how their texts are scored. All tasks get ``seed``, which draws,
    the folder of the data, ``limit``: how many items are scored, and ``special_tokens``: what those spelled out in a
    text are. Raises :class:`~workbench.errors.ConfigError`.
    """

    shots: int | None = None
    split: str | None = None
    stride: int | None = None
    judge: str | None = None
    limit_per_paradigm: int | None = None
    convention: str = "workbench"
    reduction: str = "sum"
    masking: str = "original"
    seed: int = 0
    limit: int | None = None
    data_dir: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shots is not None and not 0 <= self.shots <= 100:
            raise ConfigError(f"shots is {self.shots}; allowed: 0 to 100")
        if self.split is not None and self.split not in _SPLITS:
            raise ConfigError(f"split is {self.split!r}; allowed: {', '.join(_SPLITS)}")
        if self.stride is not None and self.stride < 1:
            raise ConfigError(f"stride is {self.stride}; allowed: 1 or more tokens")

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The options that a task may know, beside those that all of them get."""
        return tuple(field.name for field in fields(TaskOptions) if field.name not in _OF_ALL)

    def given(self) -> list[str]:
        """Names of the options that are not left to the task."""
        return [name for name in self.names() if getattr(self, name) != getattr(TaskOptions, name)]
