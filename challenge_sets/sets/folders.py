"""Where a set's files are: a folder of the user's, or a data set repository on the hub."""

from __future__ import annotations

import re
from pathlib import Path

from challenge_sets._set import CheckSettings
from workbench.errors import DataError

__all__ = ["HUB", "data_folder"]

HUB = "hub:"
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
            f"--set {settings.set} reads {files}; give their folder with --data-dir FOLDER or hub:owner/name"
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
            f"cannot fetch {name} from the hub: {reason}; --set {settings.set} reads {files}: "
            "give their folder with --data-dir"
        ) from error
    return Path(folder)
