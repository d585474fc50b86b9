"""SyntaxGym test suites (Gauthier et al. 2020): sentences cut into regions, and predictions about their surprisals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from challenge_sets.readers._formula import Formula, FormulaError, parse_formula
from workbench.data.files import check_text, read_json
from workbench.errors import DataError, did_you_mean

__all__ = ["Region", "SyntaxGymCondition", "SyntaxGymItem", "SyntaxGymSuite", "read"]


@dataclass(frozen=True)
class Region:
    """A stretch of a sentence; its text may be empty. Numbers count from 1."""

    number: int
    text: str


@dataclass(frozen=True)
class SyntaxGymCondition:
    """One version of an item's sentence."""

    name: str
    regions: tuple[Region, ...]

    @property
    def text(self) -> str:
        """The sentence: its regions that are not empty, joined by spaces, none before punctuation."""
        words = " ".join(region.text.strip() for region in self.regions if region.text.strip())
        for mark in (",", ".", "?", "!", ";", ":"):
            words = words.replace(f" {mark}", mark)
        return words


@dataclass(frozen=True)
class SyntaxGymItem:
    """The versions of one sentence."""

    number: int
    conditions: tuple[SyntaxGymCondition, ...]


@dataclass(frozen=True)
class SyntaxGymSuite:
    """A suite: items, the names of their regions, and the predictions that are to hold for each item."""

    name: str
    metric: str
    region_names: dict[int, str]
    items: tuple[SyntaxGymItem, ...]
    predictions: tuple[Formula, ...]


def _get(record: Any, name: str, kind: type, where: str) -> Any:
    value = record.get(name) if isinstance(record, dict) else None
    if not isinstance(value, kind):
        raise DataError(f"{where}: {name!r} must be a {kind.__name__}, is {value!r:.40}")
    return value


def _region(record: Any, where: str) -> Region:
    return Region(
        _get(record, "region_number", int, where), check_text(_get(record, "content", str, where), where)
    )


def _condition(record: Any, where: str) -> SyntaxGymCondition:
    name = _get(record, "condition_name", str, where)
    regions = [
        _region(region, f"{where}, condition {name!r}") for region in _get(record, "regions", list, where)
    ]
    return SyntaxGymCondition(name, tuple(sorted(regions, key=lambda region: region.number)))


def _items(content: Any, file: Path) -> Iterator[SyntaxGymItem]:
    for index, record in enumerate(_get(content, "items", list, str(file))):
        where = f"{file}, items[{index}]"
        conditions = tuple(_condition(entry, where) for entry in _get(record, "conditions", list, where))
        yield SyntaxGymItem(_get(record, "item_number", int, where), conditions)


def _prediction(record: Any, where: str, known: set[tuple[str, int]]) -> Formula:
    text = record if isinstance(record, str) else _get(record, "formula", str, where)
    try:
        formula = parse_formula(text)
    except FormulaError as error:
        raise DataError(f"{where}: {error}") from error
    for condition, region in sorted(formula.regions - known):
        names = sorted({name for name, _ in known})
        if condition not in names:
            raise DataError(f"{where}: unknown condition {condition!r}; {did_you_mean(condition, names)}")
        if region:
            raise DataError(f"{where}: condition {condition!r} has no region {region}")
    return formula


def read(path: Path | str) -> SyntaxGymSuite:
    """A suite in SyntaxGym's JSON form.

    Raises :class:`~workbench.errors.DataError` naming file and entry for missing fields, formulas that do not
    parse, and formulas about conditions or regions that the items lack.
    """
    file = Path(path)
    content = read_json(file)
    meta = _get(content, "meta", dict, str(file))
    items = tuple(_items(content, file))
    if not items:
        raise DataError(f"{file}: 'items' is empty")
    known = {(c.name, region.number) for item in items for c in item.conditions for region in c.regions}
    names = _get(content, "region_meta", dict, str(file))
    # Some published files keep their formulas as strings in "meta" and leave "predictions" empty.
    predictions = _get(content, "predictions", list, str(file)) or meta.get("string_predictions") or []
    if not isinstance(predictions, list):
        raise DataError(f"{file}: 'string_predictions' must be a list, is {predictions!r:.40}")
    return SyntaxGymSuite(
        name=str(meta.get("name", file.stem)),
        metric=str(meta.get("metric", "sum")),
        region_names={int(key): str(value) for key, value in names.items() if str(key).isdigit()},
        items=items,
        predictions=tuple(
            _prediction(record, f"{file}, predictions[{index}]", known)
            for index, record in enumerate(predictions)
        ),
    )
