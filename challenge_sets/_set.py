"""What a challenge set is: items from files or generated, one row per item, metrics over the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, fields
from typing import Any, Protocol, TypeVar

import pandas as pd

from challenge_sets._conventions import convention, reduction
from workbench.data import Dataset, spread
from workbench.errors import ConfigError
from workbench.models import Kind
from workbench.records import check_fields
from workbench.statistics import Estimate

__all__ = ["ChallengeSet", "CheckSettings", "Item", "Results", "Rows", "Work", "limit_note", "within_limits"]

Results = dict[str, dict[str, Estimate]]
Rows = Iterator[list[dict[str, Any]]]


@dataclass(frozen=True, kw_only=True)
class CheckSettings:
    """The recipe of a check: everything its numbers depend on, beside model and data.

    ``set`` is the name of the set that is checked, from which :func:`check` fills it in; ``suite`` is the suite
    as it was named, for suites. ``limit`` takes so many items, spread over paradigms (over tests, in suites) by
    ``seed``; ``limit_per_paradigm`` takes the first of each. ``convention``,
    ``reduction`` and ``masking`` say how texts are scored; ``seed`` draws samples.
    """

    set: str = ""
    suite: str | None = None
    data_dir: str | None = None
    limit: int | None = None
    limit_per_paradigm: int | None = None
    convention: str = "workbench"
    reduction: str = "sum"
    masking: str = "original"
    seed: int = 0

    def __post_init__(self) -> None:
        check_fields(self)
        convention(self.convention)
        reduction(self.reduction)
        if self.masking not in ("original", "within_word_l2r"):
            raise ConfigError(f"unknown masking {self.masking!r}; allowed: original, within_word_l2r")

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionary for the run's recipe."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> CheckSettings:
        """The inverse of :meth:`to_dict`; other keys are left out."""
        return cls(**{field.name: values[field.name] for field in fields(cls) if field.name in values})


class Item(Protocol):
    """One question of a set; its id is unique within the set."""

    @property
    def id(self) -> str:
        """Names the item in files and runs."""


@dataclass(frozen=True)
class Work:
    """What is to be scored: items, the positions of those that are stored already, and how to run."""

    items: Sequence[Any]
    settings: CheckSettings
    done: Set[int] = frozenset()
    batch_tokens: str | int = "auto"
    progress: bool = False


class ChallengeSet(Protocol):
    """A named set of questions to a model. ``version`` rises whenever its numbers can change."""

    @property
    def name(self) -> str:
        """The set's name."""

    @property
    def version(self) -> int:
        """Stored with each run."""

    @property
    def about(self) -> str:
        """One line: what is measured, and on which files."""

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Kinds of model that can be asked."""

    def load(self, settings: CheckSettings) -> Dataset[Any]:
        """Read or make the items; raises :class:`~workbench.errors.DataError` naming the files looked for."""

    def policy(self, model: Any, settings: CheckSettings) -> str:
        """How texts are scored, in words."""

    def rows(self, model: Any, work: Work) -> Rows:
        """One row per item (with its ``id``), as they are finished."""

    def metrics(self, rows: pd.DataFrame) -> Results:
        """Group -> metric -> value with interval."""

    def notes(self, settings: CheckSettings) -> dict[str, Any]:
        """What stands beside the results: ``published`` numbers by source and group, or the ``tests``."""


Value = TypeVar("Value")


def limit_note(settings: CheckSettings) -> str | None:
    """How the items of a limited run were chosen (see :func:`within_limits`); ``None`` without ``limit``."""
    if settings.limit is None:
        return None
    return (
        f"limited to {settings.limit:,} items, spread over the set's groups: the first items of each, as many of one "
        f"as of another; seed {settings.seed} draws which groups have one more"
    )


def within_limits(
    items: Sequence[Value], group: Callable[[Value], str], settings: CheckSettings
) -> list[Value]:
    """The first ``limit_per_paradigm`` items of each group, and of these ``limit``, spread over all groups."""
    counts: dict[str, int] = {}
    kept = []
    for item in items:
        counts[group(item)] = counts.get(group(item), 0) + 1
        if settings.limit_per_paradigm is None or counts[group(item)] <= settings.limit_per_paradigm:
            kept.append(item)
    return [kept[i] for i in spread([group(item) for item in kept], settings.limit, settings.seed)]
