"""Minimal pairs and contrast sets in a user's own tables: roles of columns, by usual names or bound by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from challenge_sets._records import MinimalPair
from challenge_sets.readers.contrast_sets import ContrastSet, Member
from workbench.characters import check_text
from workbench.data.tables import FORMATS, Row, check_column, class_label, read_table
from workbench.errors import ConfigError, DataError, did_you_mean

__all__ = [
    "ALTERED",
    "FORMS",
    "TREES",
    "bound",
    "form_of",
    "joined_rows",
    "read_columns",
    "read_contrast",
    "read_pairs",
    "two_files",
    "usual_name",
]

ALTERED = ("altered", "edited", "changed", "contrast", "perturbed")
TREES = ".conllu"
_SIDES = (("original",), ALTERED)  # words in the names of files
_SECOND = ("pair", "sentence2", "text2", "context", "passage", "premise", "perspective", "hypothesis")
_PAIRS = {
    "good": ("good", "sentence_good", "grammatical", "acceptable"),
    "bad": ("bad", "sentence_bad", "ungrammatical", "unacceptable"),
}
_GROUPS = {
    "paradigm": ("paradigm", "UID", "condition"),
    "phenomenon": ("phenomenon", "linguistics_term", "field"),
}
_WIDE = {
    "original": tuple(f"original{end}" for end in ("", "_text", "_sentence", "_claim")),
    "altered": tuple(f"{word}{end}" for end in ("", "_text", "_sentence", "_claim") for word in ALTERED),
    "original_label": ("original_label", "original_stance_label", "label"),
    "altered_label": (
        *(f"{word}{end}" for end in ("_label", "_stance_label") for word in ALTERED),
        "label",  # one column: the edit keeps the label
    ),
}
_LONG = {
    "group": ("group", "set", "set_id", "contrast_set"),
    "text": ("text", "sentence", "sentence1"),
    "label": ("label", "gold"),
}
# form -> the usual names of each role: those it needs, those it may have; the first whose columns are all there
FORMS: Mapping[str, tuple[Mapping[str, tuple[str, ...]], Mapping[str, tuple[str, ...]]]] = {
    "minimal pairs": (_PAIRS, _GROUPS),
    "contrast set, an original and its edit a row": (_WIDE, {"pair": _SECOND, "group": ("group",)}),
    "contrast set, a member a row": (_LONG, {"pair": _SECOND, "original": ("original", "is_original")}),
}
_YES = ("1", "true", "yes", "original")
_NO = ("0", "false", "no", *ALTERED)


def read_columns(text: str | None) -> dict[str, str]:
    """``good=COLUMN,bad=COLUMN`` as a mapping from role to column; two bare names are the good and the bad one.

    Raises :class:`~workbench.errors.ConfigError` for an unknown role, with the nearest.
    """
    words = [word.strip() for word in (text or "").split(",") if word.strip()]
    if len(words) == 2 and not any("=" in word for word in words):
        words = [f"{role}={word}" for role, word in zip(_PAIRS, words, strict=True)]
    roles = list(dict.fromkeys(role for needs, may in FORMS.values() for role in (*needs, *may)))
    found = {}
    for word in words:
        role, sign, column = word.partition("=")
        if not sign or not column:
            raise ConfigError(f"--columns {text!r:.60} must be GOOD,BAD or role=column,...")
        if role not in roles:
            raise ConfigError(f"--columns: unknown role {role!r}; {did_you_mean(role, roles)}")
        found[role] = column
    return found


def bound(names: Sequence[str], given: Mapping[str, str]) -> tuple[str, dict[str, str]] | None:
    """The form that columns called ``names`` have, and the column of each role; ``given`` roles as they are bound."""
    for form, (needs, may) in FORMS.items():
        if not set(given) <= {*needs, *may}:
            continue
        usual = {role: usual_name(names, options) for role, options in {**needs, **may}.items()}
        columns = {**usual, **given}
        if all(columns[role] for role in needs):
            return form, {role: column for role, column in columns.items() if column}
    return None


def usual_name(names: Sequence[str], options: Sequence[str]) -> str:
    """The first of ``options`` that is among ``names``, in whatever case; empty if none is."""
    known = {name.lower(): name for name in names}
    return next((known[option.lower()] for option in options if option.lower() in known), "")


def two_files(place: Path) -> tuple[Path, Path] | None:
    """The files of originals and of edits, tables or treebanks, by their names: the only ones in a folder, or a file
    of either and the one beside it with the other word in its name (original.tsv, changed.tsv); ``None`` without both.
    """
    if place.is_dir():
        tables = [path for path in sorted(place.glob("*")) if path.suffix in (*FORMATS, TREES)]
        originals, edits = ([p for p in tables if any(w in p.stem for w in words)] for words in _SIDES)
        return (originals[0], edits[0]) if len(originals) == len(edits) == 1 else None
    for side, (own, others) in enumerate((_SIDES, _SIDES[::-1])):
        names = [place.name.replace(word, other) for word in own for other in others if word in place.name]
        found = next((path for path in map(place.with_name, names) if path.is_file()), None)
        if found is not None and place.is_file():
            return (found, place) if side else (place, found)
    return None


def joined_rows(originals: Path, edits: Path) -> list[tuple[str, Row]]:
    """The rows of two files with the same columns, in MC-TACO's form, with columns ``group`` and ``original`` of ours.

    Rows that follow each other with one text (a question with its candidates) are one example; the n-th of the
    originals and the n-th of the edits are a set. Raises :class:`~workbench.errors.DataError` if one has more.
    """
    found: list[tuple[str, Row]] = []
    counts = []
    for path, mark in ((originals, "yes"), (edits, "no")):
        rows = list(read_table(path))
        column = usual_name(list(rows[0][1]), _LONG["text"]) if rows else ""
        if not column:
            raise DataError(f"{path} has no rows with a column {' or '.join(_LONG['text'])}")
        number, last = -1, None
        for where, row in rows:
            number, last = number + (row.get(column) != last), row.get(column)
            found.append((where, {**row, "group": f"{number:05d}", "original": mark}))
        counts.append(number + 1)
    if counts[0] != counts[1]:
        raise DataError(f"{originals} has {counts[0]} examples, {edits} {counts[1]}; they go one by one")
    return found


def form_of(names: Sequence[str], given: Mapping[str, str], where: object) -> tuple[str, dict[str, str]]:
    """As :func:`bound`; raises :class:`~workbench.errors.DataError` for columns of no form, naming what each needs."""
    for column in given.values():
        check_column(column, names, where)
    found = bound(names, given)
    if found is None:
        wanted = "; ".join(f"{form}: {', '.join(needs)}" for form, (needs, _) in FORMS.items())
        raise DataError(
            f"{where} is no challenge set: its columns are {', '.join(map(repr, names))}; wanted are {wanted}; "
            "bind others with --columns role=column,..."
        )
    return found


def read_pairs(
    rows: Sequence[tuple[str, Row]], columns: Mapping[str, str], name: str
) -> Iterator[MinimalPair]:
    """A pair a row; ``paradigm`` and ``phenomenon`` are empty where there is no such column."""
    for number, (where, row) in enumerate(rows):
        text = {role: _text(row, column, where) for role, column in columns.items()}
        yield MinimalPair(
            f"{number:05d}",
            name,
            text.get("paradigm", ""),
            text.get("phenomenon", ""),
            text["good"],
            text["bad"],
        )


def read_contrast(
    rows: Sequence[tuple[str, Row]], columns: Mapping[str, str], name: str
) -> Iterator[ContrastSet]:
    """The sets: of one row each (an original and its edit), or of all rows of a group.

    Without a column ``original`` the first row of a group is the original. Raises
    :class:`~workbench.errors.DataError` for a set of one member.
    """
    sets: dict[str, list[Member]] = {}
    places: dict[str, str] = {}
    for number, (where, row) in enumerate(rows):
        group = _text(row, columns["group"], where) if "group" in columns else f"{number:05d}"
        members = sets.setdefault(group, [])
        places.setdefault(group, where)
        members += _members(row, columns, where, first=not members)
    for group, members in sets.items():
        if len(members) < 2:
            raise DataError(f"{places[group]}: set {group!r} has one member; it needs two or more")
        yield ContrastSet(group, name, tuple(members))


def _members(row: Row, columns: Mapping[str, str], where: str, *, first: bool) -> list[Member]:
    second = (_text(row, columns["pair"], where),) if "pair" in columns else ()

    def member(text: str, label: str, original: bool) -> Member:
        given = class_label(row.get(columns[label]), f"{where}, {columns[label]}")
        return Member((_text(row, columns[text], where), *second), given, original)

    if "altered" in columns:
        found = [member("original", "original_label", True), member("altered", "altered_label", False)]
        return found if first or "group" not in columns else found[1:]
    return [member("text", "label", _is_original(row, columns, where) if "original" in columns else first)]


def _is_original(row: Row, columns: Mapping[str, str], where: str) -> bool:
    value = str(row.get(columns["original"])).strip().lower()
    if value not in (*_YES, *_NO):
        raise DataError(
            f"{where}: {columns['original']} is {value!r:.40}; allowed: {', '.join((*_YES, *_NO))}"
        )
    return value in _YES


def _text(row: Row, column: str, where: str) -> str:
    value: Any = row.get(column)
    if value is None or not str(value).strip():
        raise DataError(f"{where}: {column} is empty")
    if not isinstance(value, str | int | float):
        raise DataError(f"{where}: {column} must be a text, is {value!r:.60}")
    return check_text(str(value), where)
