"""The archive that the GLUE server takes: one file a test set, each with a line an item."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from zipfile import BadZipFile, ZipFile, ZipInfo

import pandas as pd

from workbench.data.glue import GLUE, GlueLayout
from workbench.errors import DataError
from workbench.runs import Run, write_atomically

__all__ = ["check_submission", "missing_files", "submission_files", "write_submission"]

_HEADER = "index\tprediction"
_DATE = (1980, 1, 1, 0, 0, 0)  # equal predictions make equal archives


def write_submission(run: Run, path: Path) -> Path:
    """Write the predictions of a run on test sets (``--split test``) and check the archive.

    The server wants all eleven files: :func:`missing_files` says which are not there. Raises
    :class:`~workbench.errors.DataError` if the run has no GLUE task, only some items of one, or labelled ones.
    """
    split = run.record.recipe.get("split")
    if split != "test":
        raise DataError(
            f"a submission needs the test sets, this run is of split {split or 'validation'}: --split test"
        )
    files = submission_files(run.examples())
    if not files:
        raise DataError("the run has no GLUE task; evaluate --task glue --split test")
    buffer = BytesIO()
    with ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            archive.writestr(ZipInfo(name, _DATE), text)
    write_atomically(path, buffer.getvalue())
    check_submission(path)
    return path


def submission_files(examples: pd.DataFrame) -> dict[str, str]:
    """The text of each test set's file, by its official name."""
    files = {}
    for name, layout in GLUE.items():
        rows = examples[examples["task"] == f"glue/{name}"]
        if len(rows):
            lines = [f"{number}\t{_answer(layout, row)}" for number, (_, row) in enumerate(rows.iterrows())]
            files[layout.submission] = "\n".join([_HEADER, *lines]) + "\n"
    return files


def _answer(layout: GlueLayout, row: pd.Series) -> str:
    """The label's name; a similarity between 0 and 5."""
    if layout.labels:
        return layout.labels[int(row["prediction"])]
    return f"{min(max(float(row['prediction']), 0.0), 5.0):.3f}"


def check_submission(path: Path) -> None:
    """Raise :class:`~workbench.errors.DataError` naming file and line of the first thing the server would refuse."""
    known = {layout.submission: layout for layout in GLUE.values()}
    try:
        with ZipFile(path) as archive:
            texts = {name: archive.read(name).decode("utf-8") for name in archive.namelist()}
    except (OSError, BadZipFile, UnicodeDecodeError) as error:
        raise DataError(f"cannot read {path} as a zip archive: {error}") from error
    for name, text in texts.items():
        if name not in known:
            raise DataError(f"{path}: {name} is not a file of GLUE; allowed: {', '.join(known)}")
        _check(f"{path}: {name}", text.removesuffix("\n").split("\n"), known[name])


def _check(where: str, lines: list[str], layout: GlueLayout) -> None:
    if lines[0] != _HEADER:
        raise DataError(f"{where}, line 1 is {lines[0]!r:.40}; expected {_HEADER!r}")
    if len(lines) - 1 != layout.test_rows:
        raise DataError(f"{where} has {len(lines) - 1} predictions; the test set has {layout.test_rows}")
    for number, line in enumerate(lines[1:]):
        index, _, answer = line.partition("\t")
        if index != str(number):
            raise DataError(f"{where}, line {number + 2}: index is {index!r:.20}, expected {number}")
        if layout.labels and answer not in layout.labels:
            allowed = ", ".join(layout.labels)
            raise DataError(f"{where}, line {number + 2}: {answer!r:.40} is no label; allowed: {allowed}")
        if not layout.labels and not _is_similarity(answer):
            raise DataError(f"{where}, line {number + 2}: {answer!r:.40} is no number from 0 to 5")


def _is_similarity(text: str) -> bool:
    try:
        return 0.0 <= float(text) <= 5.0
    except ValueError:
        return False


def missing_files(files: Mapping[str, str]) -> list[str]:
    """Names that the server wants and that are not there."""
    return [layout.submission for layout in GLUE.values() if layout.submission not in files]
