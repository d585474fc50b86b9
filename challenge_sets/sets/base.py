"""What the sets share: where their files are, items scored some at a time, metrics by groups."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from challenge_sets._set import CheckSettings, Results, Rows, Work
from workbench.data import DataIdentity, Dataset, content_hash
from workbench.errors import DataError
from workbench.models import Kind, LoadedModel
from workbench.statistics import Estimate

__all__ = ["HUB", "LANGUAGE_MODELS", "QuestionSet", "by_groups", "data_folder"]

HUB = "hub:"
LANGUAGE_MODELS = (Kind.CAUSAL, Kind.MASKED, Kind.SEQ2SEQ)
_NAME = re.compile(r"hub:([\w.-]+/[\w.-]+)((?:/[\w .-]+)*)")
# What the readers read; scripts and archives of a repository stay there.
_FILES = ["*.jsonl", "*.json", "*.tsv", "*.csv", "*.txt", "*.text", "*.gold", "*.parquet"]


def data_folder(settings: CheckSettings, files: str, hub: str | None = None) -> Path:
    """The folder with a set's ``files``: the ``data_dir`` of the settings, else the repository ``hub``.

    ``hub:owner/name/folder`` stands for a folder of a data set repository on the hub, whose data files are
    downloaded once. Raises :class:`~workbench.errors.DataError` naming ``files`` if there is no such place.
    """
    place = settings.data_dir or hub
    if place is None:
        raise DataError(
            f"set {settings.set} reads {files}; give their folder with --data-dir FOLDER or hub:owner/name"
        )
    if not place.startswith(HUB):
        return Path(place)
    match = _NAME.fullmatch(place)
    if match is None or ".." in place:
        raise DataError(
            f"--data-dir {place!r} is no place on the hub; write hub:owner/name or hub:owner/name/folder"
        )
    return _downloaded(match[1], settings, files) / match[2].lstrip("/")


def _downloaded(name: str, settings: CheckSettings, files: str) -> Path:
    from huggingface_hub import snapshot_download

    from workbench.models.loading import hub_answers

    offline = not hub_answers()
    try:
        folder = snapshot_download(name, repo_type="dataset", allow_patterns=_FILES, local_files_only=offline)
    except (OSError, ValueError) as error:
        reason = "the hub does not answer" if offline else str(error).splitlines()[0][:150]
        raise DataError(
            f"cannot fetch {name} from the hub: {reason}; set {settings.set} reads {files}: "
            "give their folder with --data-dir"
        ) from error
    return Path(folder)


class QuestionSet:
    """A set whose items are scored ``chunk`` at a time; it says how in :meth:`scored`."""

    name: str
    about: str
    version = 1
    kinds: tuple[Kind, ...] = LANGUAGE_MODELS
    chunk = 64

    def dataset(self, items: Sequence[Any], texts: Iterable[str], source: str) -> Dataset[Any]:
        """The items with their identity, which is a hash of their ``texts``."""
        return Dataset(tuple(items), DataIdentity(self.name, source, content_hash(texts), len(items)))

    def scored(self, model: LoadedModel, work: Work, items: Sequence[Any]) -> list[dict[str, Any]]:
        """The rows of ``items``."""
        raise NotImplementedError

    def rows(self, model: LoadedModel, work: Work) -> Rows:
        """One row per item that has none yet; see :meth:`scored`."""
        todo = [item for place, item in enumerate(work.items) if place not in work.done]
        for start in range(0, len(todo), self.chunk):
            yield self.scored(model, work, todo[start : start + self.chunk])

    def notes(self, settings: CheckSettings) -> dict[str, Any]:
        """No notes."""
        return {}


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
