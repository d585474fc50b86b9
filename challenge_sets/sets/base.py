"""What the sets share: a task's form, where their files are, limits, items scored some at a time, metrics by groups."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pandas as pd

from challenge_sets._conventions import convention, reduction
from workbench.data import DataIdentity, Dataset, content_hash, spread
from workbench.data.hub import is_hub_name
from workbench.errors import ConfigError, DataError
from workbench.evaluate import TaskData, TaskItem, TaskOptions
from workbench.evaluate.inference import InferenceOptions
from workbench.evaluate.metric_columns import not_scored
from workbench.models import Kind, LoadedModel
from workbench.statistics import Estimate
from workbench.terminal import counted

__all__ = [
    "LANGUAGE_MODELS",
    "PAIR_MODELS",
    "QuestionSet",
    "Results",
    "Rows",
    "by_groups",
    "within_limits",
]

Results = dict[str, dict[str, Estimate]]
Rows = Iterator[list[dict[str, Any]]]
Value = TypeVar("Value")

LANGUAGE_MODELS = (Kind.CAUSAL, Kind.MASKED, Kind.SEQ2SEQ)
# what minimal pairs are scored with; of encoders only those that predict in an order (XLNet), as the scorer finds
PAIR_MODELS = (*LANGUAGE_MODELS, Kind.DETECTOR, Kind.ENCODER)
_NAME = re.compile(r"hub:([\w.-]+/[\w.-]+)(?:@([\w.-]+))?((?:/[\w .-]+)*)")
# What the readers read; scripts and archives of a repository stay there.
_FILES = ["*.jsonl", "*.json", "*.tsv", "*.csv", "*.txt", "*.text", "*.gold", "*.parquet"]


@dataclass(frozen=True)
class QuestionSet:
    """A challenge set: a task that asks the model itself, ``chunk`` items at a time where it has :meth:`scored`.

    ``about`` is one line: what is measured. ``files`` names what :meth:`folder` must hold (empty: nothing is read),
    ``hub`` the repository with them. A set in a user's table says which ``file``, and ``bound_columns`` what of it
    is bound by ``--columns``. ``version`` rises whenever numbers can change.
    """

    name: str
    about: str
    _: KW_ONLY
    version: int = 1
    kinds: tuple[Kind, ...] = LANGUAGE_MODELS
    chunk: int = 64
    options: TaskOptions = field(default_factory=TaskOptions)
    files: str = ""
    hub: str | None = None
    file: str | None = None
    bound_columns: str | None = None
    accepts: ClassVar[tuple[str, ...]] = (
        "limit_per_paradigm",
    )  # of TaskOptions, those that change what is scored

    def __post_init__(self) -> None:
        convention(self.options.convention)
        reduction(self.options.reduction)
        if self.options.masking not in ("original", "within_word_l2r"):
            raise ConfigError(f"unknown masking {self.options.masking!r}; allowed: original, within_word_l2r")

    def folder(self, options: TaskOptions | None = None) -> Path:
        """The folder (or file) with the set's files: the ``data_dir`` of the options, else the set's repository.

        ``hub:owner/name@revision/folder`` stands for a folder of a data set repository on the hub, whose data files
        are downloaded once; revision and folder may be left out. Raises :class:`~workbench.errors.DataError` naming
        the files if there is no such place.
        """
        place = (options or self.options).data_dir or self.hub
        if place is None:
            raise DataError(
                f"set {self.name} reads {self.files}; give their folder with --data-dir FOLDER or hub:owner/name"
            )
        if not is_hub_name(place):
            return Path(place)
        match = _NAME.fullmatch(place)
        if match is None or ".." in place:
            raise DataError(
                f"--data-dir {place!r} is no place on the hub; write hub:owner/name, hub:owner/name/folder "
                "or hub:owner/name@revision"
            )
        return _downloaded(match[1], match[2], self.name, self.files) / match[3].lstrip("/")

    def items(self) -> Dataset[Any]:
        """The items within the limits of the options, each with an ``id`` that is unique in the set."""
        raise NotImplementedError

    def load(self, data_dir: Path | None) -> TaskData:
        """The items, read from ``data_dir`` or the folder of the options.

        Raises :class:`~workbench.errors.DataError` naming the files looked for.
        """
        place = self.options.data_dir if data_dir is None else str(data_dir)
        found = replace(self, options=replace(self.options, data_dir=place)).items()
        return TaskData(tuple(TaskItem(item.id, (), {"item": item}) for item in found), found.identity)

    def dataset(self, items: Sequence[Any], texts: Iterable[str], source: str) -> Dataset[Any]:
        """The items with their identity, which is a hash of their ``texts``."""
        return Dataset(tuple(items), DataIdentity(self.name, source, content_hash(texts), len(items)))

    def policy(self, model: LoadedModel) -> str:
        """How texts are scored, in words."""
        raise NotImplementedError

    def scored(
        self, model: LoadedModel, items: Sequence[Any], inference: InferenceOptions
    ) -> list[dict[str, Any]]:
        """The rows of ``items``."""
        raise NotImplementedError

    def rows(
        self, model: LoadedModel, items: Sequence[TaskItem], options: InferenceOptions, done: Set[int]
    ) -> Rows:
        """One row per item that has none yet; see :meth:`scored`."""
        todo = [item.fields["item"] for place, item in enumerate(items) if place not in done]
        for start in range(0, len(todo), self.chunk):
            yield self.scored(model, todo[start : start + self.chunk], options)

    def results(self, examples: pd.DataFrame) -> Results:
        """Group -> metric -> value with interval."""
        raise NotImplementedError

    def notes(self, rows: pd.DataFrame) -> dict[str, Any]:
        """What stands beside the results of a check: ties, how items were chosen, and which were not scored."""
        found: dict[str, Any] = {"ties": int(rows["tie"].sum()) if "tie" in rows else 0}
        if self.options.limit is not None:
            found["limited"] = (
                f"limited to {counted(self.options.limit, 'item')}, spread over the set's groups: the first items of "
                f"each, as many of one as of another; seed {self.options.seed} draws which groups have one more"
            )
        if (reason := not_scored(rows)) is not None:
            found["not_scored"] = reason
        return found


def within_limits(items: Sequence[Value], group: Callable[[Value], str], options: TaskOptions) -> list[Value]:
    """The first ``limit_per_paradigm`` items of each group, and of these ``limit``, spread over all groups."""
    counts: dict[str, int] = {}
    kept = []
    for item in items:
        counts[group(item)] = counts.get(group(item), 0) + 1
        if options.limit_per_paradigm is None or counts[group(item)] <= options.limit_per_paradigm:
            kept.append(item)
    return [kept[i] for i in spread([group(item) for item in kept], options.limit, options.seed)]


def _downloaded(repository: str, revision: str | None, name: str, files: str) -> Path:
    from huggingface_hub import snapshot_download

    from workbench.pretrained import hub_answers

    offline = not hub_answers()
    try:
        folder = snapshot_download(
            repository,
            repo_type="dataset",
            revision=revision,
            allow_patterns=_FILES,
            local_files_only=offline,
        )
    except (OSError, ValueError) as error:
        reason = "the hub does not answer" if offline else str(error).splitlines()[0][:150]
        raise DataError(
            f"cannot fetch {repository} from the hub: {reason}; set {name} reads {files}: "
            "give their folder with --data-dir"
        ) from error
    return Path(folder)


def by_groups(
    name: str,
    rows: pd.DataFrame,
    columns: Sequence[str],
    measure: Callable[[pd.DataFrame], dict[str, Estimate]],
    *,
    sort: bool = False,
) -> Results:
    """``measure`` of all rows, under ``name``, and of each value of each column, under ``name/value``."""
    found = {name: measure(rows)}
    for column in columns:
        found |= {f"{name}/{value}": measure(part) for value, part in rows.groupby(column, sort=sort)}
    return found
