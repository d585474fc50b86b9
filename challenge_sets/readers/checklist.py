"""CheckList suites (Ribeiro et al. 2020) exported as JSON lines, one test a line; pickled suites are refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from challenge_sets.readers._rows import one_of
from workbench.characters import check_text
from workbench.data.files import read_jsonl, text_field
from workbench.errors import DataError

__all__ = ["CheckListCase", "CheckListTest", "read"]

Kind = Literal["MFT", "INV", "DIR"]
_BINARY_STARTS = (b"\x80", b"\x1f\x8b", b"PK\x03\x04")
_CONVERT = (
    "a pickle can run any code when it is read, so it is refused; in the environment that made it, write for "
    "each test one JSON line with capability, test, type, description, labels and cases (test.data)"
)


class CheckListCase(NamedTuple):
    """The examples of one case, each of one text or two (a pair): one for MFT, original and variants otherwise."""

    examples: tuple[tuple[str, ...], ...]
    label: int | str | None


class CheckListTest(NamedTuple):
    """One test; ``full_size`` is the number of cases in the suite it was taken from, if stated."""

    name: str
    capability: str
    kind: Kind
    description: str
    cases: tuple[CheckListCase, ...]
    full_size: int | None


def read(path: Path | str) -> Iterator[CheckListTest]:
    """The tests of an exported suite.

    Each line has ``capability``, ``test``, ``type`` (MFT, INV or DIR), ``cases`` and ``labels`` (one for all
    cases, one for each, or null). A list of texts in an MFT case is one example of several texts (a pair);
    in an INV or DIR case it is the original with its variants. Lists of lists are several such examples.
    Raises :class:`~workbench.errors.DataError` for a pickle or an archive, with the way to convert it, and
    with file and line for what is not in this form.
    """
    _refuse_binary(Path(path))
    for number, record in read_jsonl(path):
        where = f"{path}, line {number}"
        kind = cast(Kind, one_of(text_field(record, "type", where), ("MFT", "INV", "DIR"), where, "type"))
        cases = record.get("cases")
        if not isinstance(cases, list) or not cases:
            raise DataError(f"{where}: cases must be a list with at least one case, is {cases!r:.40}")
        labels = _labels(record.get("labels"), len(cases), where)
        full_size = record.get("n_cases_full")
        yield CheckListTest(
            name=text_field(record, "test", where),
            capability=text_field(record, "capability", where),
            kind=kind,
            description=str(record.get("description") or ""),
            cases=tuple(
                CheckListCase(_examples(case, kind, f"{where}, case {index}"), label)
                for index, (case, label) in enumerate(zip(cases, labels, strict=True))
            ),
            full_size=full_size if isinstance(full_size, int) else None,
        )


def _refuse_binary(path: Path) -> None:
    if path.suffix in (".pkl", ".pickle", ".gz", ".tgz", ".tar", ".zip"):
        raise DataError(f"{path} looks like a pickled CheckList suite: {_CONVERT}")
    try:
        with path.open("rb") as file:
            start = file.read(4)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    if start.startswith(_BINARY_STARTS):
        raise DataError(f"{path} is a pickled or packed CheckList suite: {_CONVERT}")


def _labels(labels: Any, count: int, where: str) -> list[int | str | None]:
    if isinstance(labels, list):
        if len(labels) != count:
            raise DataError(f"{where}: {len(labels)} labels for {count} cases")
        return labels
    if labels is not None and not isinstance(labels, (int, str)):
        raise DataError(f"{where}: labels must be a label, a list or null, is {labels!r:.40}")
    return [labels] * count


def _texts(item: Any, where: str) -> tuple[str, ...]:
    texts = [item] if isinstance(item, str) else item
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise DataError(f"{where}: an example must be a text or a list of texts, is {item!r:.60}")
    return tuple(check_text(text, where) for text in texts)


def _examples(case: Any, kind: Kind, where: str) -> tuple[tuple[str, ...], ...]:
    if isinstance(case, list) and case:
        nested = isinstance(case[0], list)
        if nested or kind != "MFT":
            return tuple(_texts(item, where) for item in case)
    return (_texts(case, where),)
