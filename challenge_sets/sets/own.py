"""Challenge sets in tables of a user's own: ``workbench check MODEL --set pairs.tsv``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from challenge_sets.readers.contrast_sets import ContrastSet
from challenge_sets.readers.edited_trees import edited_trees
from challenge_sets.readers.generic import (
    ALTERED,
    TREES,
    bound,
    form_of,
    joined_rows,
    read_contrast,
    read_pairs,
    two_files,
)
from challenge_sets.sets.base import QuestionSet
from challenge_sets.sets.labelled import ContrastSets, consistency_suite
from challenge_sets.sets.minimal_pairs import PairSet
from challenge_sets.suites.tests import SuitePrompt
from workbench.data.hub import is_hub_name
from workbench.data.tables import Row, Rows, is_table, read_table, records_of, table_name
from workbench.errors import DataError

__all__ = ["is_own_set", "own_set"]


def is_own_set(name: str) -> bool:
    """Whether ``name`` is a table of minimal pairs or of a contrast set, by its columns; or a folder, or either
    file, of a contrast set in two files (:func:`~challenge_sets.readers.generic.two_files`)."""
    return _is_whole(name) or two_files(Path(name)) is not None


def _is_whole(name: Path | str) -> bool:
    """Whether the columns of a table are those of a set."""
    path = Path(name)
    if not is_table(path) or not (path.is_file() or is_hub_name(path)):
        return False
    try:
        _, first = next(read_table(path), ("", {}))
    except DataError:
        return False
    return bound(list(first), {}) is not None


def own_set(
    rows: Rows | Path | str, name: str | None = None, columns: Mapping[str, str] | None = None
) -> QuestionSet:
    """The challenge set that a table is: minimal pairs, or a contrast set.

    Args:
        rows: a JSONL, JSON, CSV, TSV or Parquet file, or ``hub:owner/name:configuration:split``; rows in memory (a
            DataFrame, a Dataset, mappings); or a folder with a file of originals and one of edits, by their names, or
            either file: tables that go example by example (MC-TACO's form), or CoNLL-U treebanks whose edits move a
            phrase, of which the label is the part of speech of the word that it attaches to.
        name: of the set in results; the file's name without its ending by default.
        columns: the column of each role, where it has not one of the usual names. Minimal pairs: ``good``, ``bad``;
            also ``paradigm``, ``phenomenon``. Contrast sets of an original and its edit a row: ``original``,
            ``altered``, ``original_label``, ``altered_label``; also ``pair`` (a second text of both) and ``group``.
            Contrast sets of a member a row: ``group``, ``text``, ``label``; also ``pair`` and ``original`` (yes or no).

    A contrast set asks classifiers and functions for its labels, and language models with the texts, a line each, and
    ``Answer:`` before the label.

    Raises :class:`~workbench.errors.DataError` for columns of neither form, and for bad rows by line.

    Example:
        ```python
        import pandas as pd
        import workbench
        from challenge_sets import own_set

        frame = pd.DataFrame({"good": ["The boys are here."], "bad": ["The boys is here."]})
        print(workbench.check("novels-decoder", own_set(frame, "mine"), doctor=False).to_frame())
        ```
    """
    left_out = 0
    if isinstance(rows, Path | str):
        where, (placed, left_out) = str(rows), _placed(Path(rows), bool(columns))
        name = name or table_name(rows)
    else:
        where = name = name or "rows"
        placed = [(f"{name}, row {n}", row) for n, row in enumerate(records_of(rows, name), 1)]
    if not placed:
        raise DataError(f"{where} has no rows")
    form, roles = form_of(list(placed[0][1]), columns or {}, where)
    about = f"{form}, from {Path(where).name}" + (f"; {left_out} left out" if left_out else "")
    return (_pairs if "good" in roles else _contrast)(placed, roles, name, about)


def _placed(path: Path, bound_by_hand: bool) -> tuple[list[tuple[str, Row]], int]:
    """The rows of a table, or of the two files that a set is in, and how many examples are left out of these."""
    sides = two_files(path)
    if is_table(path) and not path.is_dir() and (sides is None or bound_by_hand or _is_whole(path)):
        return list(read_table(path)), 0
    if sides is None:
        raise DataError(
            f"{path} needs one table with original in its name, and one with {' or '.join(ALTERED)}"
        )
    return edited_trees(*sides) if sides[0].suffix == TREES else (joined_rows(*sides), 0)


def _pairs(rows: Sequence[tuple[str, Row]], roles: Mapping[str, str], name: str, about: str) -> QuestionSet:
    pairs = list(read_pairs(rows, roles, name))
    return PairSet(name, about, lambda _: pairs, default_source=about)


def _contrast(
    rows: Sequence[tuple[str, Row]], roles: Mapping[str, str], name: str, about: str
) -> QuestionSet:
    sets = list(read_contrast(rows, roles, name))
    suite = consistency_suite(name, sets, *_labels(sets, name))
    suites = (replace(suite, description=about),)
    return ContrastSets(name, about, lambda _: suites)


def _labels(sets: Sequence[ContrastSet], name: str) -> tuple[dict[str, tuple[str, ...]], SuitePrompt]:
    labels = sorted({member.label for found in sets for member in found.members})
    if len(labels) < 2:
        raise DataError(f"{name}: all labels are {labels[0]!r}; a contrast set needs two or more")
    texts = max(len(member.texts) for found in sets for member in found.members)
    lines = "\n".join(f"{{{n}}}" for n in range(texts))
    prompt = SuitePrompt(f"{lines}\nAnswer:", {label: f" {label}" for label in labels})
    return {label: (f"LABEL_{label}",) if label.isdigit() else () for label in labels}, prompt
