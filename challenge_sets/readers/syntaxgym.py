"""SyntaxGym test suites (Gauthier et al. 2020): sentences in regions, and predictions about their surprisals."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import isclose
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from workbench.characters import check_text
from workbench.data.files import read_json
from workbench.errors import DataError, did_you_mean

__all__ = [
    "Formula",
    "FormulaError",
    "Region",
    "Surprisals",
    "SyntaxGymCondition",
    "SyntaxGymItem",
    "SyntaxGymSuite",
    "parse_formula",
    "read",
]

Surprisals: TypeAlias = Mapping[tuple[str, int], float]
_TOKEN = re.compile(
    r"\s*(?:\(\s*(?P<region>\d+|\*)\s*;\s*%(?P<condition>[^%]+)%\s*\)|(?P<number>\d+(?:\.\d+)?)|(?P<sign>[-+<>=&|()\[\]]))"
)
_SURPRISAL_TOLERANCE = 1e-6  # surprisals are sums of floats
_CLOSING = {"(": ")", "[": "]"}
Value: TypeAlias = Callable[[Surprisals], float]
Truth: TypeAlias = Callable[[Surprisals], bool]


class FormulaError(ValueError):
    """A formula does not parse; the message says where."""


@dataclass(frozen=True)
class Formula:
    """A parsed formula and the regions it is about; region ``*`` is the whole sentence, written 0."""

    text: str
    regions: frozenset[tuple[str, int]]
    evaluate: Truth = field(repr=False, compare=False)

    def holds(self, surprisals: Surprisals) -> bool:
        """Whether the prediction comes true for surprisals by (condition, region number).

        A region ``*`` sums all regions of its condition.
        """
        return self.evaluate(surprisals)


class _Parser:
    """Recursive descent over: truth := clause (('&' | '|') clause)*; clause := value ('<' | '>' | '=') value."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.regions: set[tuple[str, int]] = set()

    def _peek(self) -> re.Match[str] | None:
        return _TOKEN.match(self.text, self.position)

    def _sign(self) -> str | None:
        match = self._peek()
        return match["sign"] if match else None

    def _take(self) -> re.Match[str]:
        match = self._peek()
        if match is None:
            raise FormulaError(f"cannot read {self.text[self.position :]!r} at character {self.position + 1}")
        self.position = match.end()
        return match

    def _expect(self, sign: str) -> None:
        start = self.position
        if self._take()["sign"] != sign:
            raise FormulaError(f"{sign!r} expected at character {start + 1}")

    def truth(self) -> Truth:
        """Clauses from left to right; ``&`` and ``|`` bind alike, as in SyntaxGym."""
        result = self._clause()
        while self._sign() in ("&", "|"):
            operator, left, right = self._take()["sign"], result, self._clause()
            result = _both(left, right) if operator == "&" else _either(left, right)
        return result

    def _clause(self) -> Truth:
        opening = self._sign()
        if opening in _CLOSING:
            # A bracket opens a whole clause or a value: try the clause, go back if it is none.
            start = self.position
            try:
                self._take()
                inner = self.truth()
                self._expect(_CLOSING[opening])
            except FormulaError:
                self.position = start
            else:
                return inner
        return self._comparison()

    def _comparison(self) -> Truth:
        left, operator, right = self._value(), self._take()["sign"], None
        if operator not in ("<", ">", "="):
            raise FormulaError(f"<, > or = expected at character {self.position}")
        right = self._value()
        return _compare(left, operator, right)

    def _value(self) -> Value:
        result = self._term()
        while self._sign() in ("+", "-"):
            operator, left, right = self._take()["sign"], result, self._term()
            result = _sum(left, right, 1.0 if operator == "+" else -1.0)
        return result

    def _term(self) -> Value:
        match = self._take()
        if match["number"]:
            number = float(match["number"])
            return lambda _: number
        if match["region"]:
            key = (match["condition"], 0 if match["region"] == "*" else int(match["region"]))
            self.regions.add(key)
            return _region(*key)
        if match["sign"] in _CLOSING:
            inner = self._value()
            self._expect(_CLOSING[match["sign"]])
            return inner
        raise FormulaError(f"a region such as (3;%condition%) expected at character {self.position}")


def _both(left: Truth, right: Truth) -> Truth:
    return lambda surprisals: left(surprisals) and right(surprisals)


def _either(left: Truth, right: Truth) -> Truth:
    return lambda surprisals: left(surprisals) or right(surprisals)


def _sum(left: Value, right: Value, factor: float) -> Value:
    return lambda surprisals: left(surprisals) + factor * right(surprisals)


def _compare(left: Value, operator: str, right: Value) -> Truth:
    if operator == "=":
        return lambda surprisals: isclose(left(surprisals), right(surprisals), abs_tol=_SURPRISAL_TOLERANCE)
    if operator == "<":
        return lambda surprisals: left(surprisals) < right(surprisals)
    return lambda surprisals: left(surprisals) > right(surprisals)


def _region(condition: str, region: int) -> Value:
    if region == 0:
        return lambda surprisals: sum(value for (name, _), value in surprisals.items() if name == condition)
    return lambda surprisals: surprisals[condition, region]


def parse_formula(text: str) -> Formula:
    """The formula, ready to be evaluated; raises :class:`FormulaError` if it does not parse."""
    parser = _Parser(text)
    evaluate = parser.truth()
    if text[parser.position :].strip():
        raise FormulaError(f"cannot read {text[parser.position :]!r} at character {parser.position + 1}")
    return Formula(text, frozenset(parser.regions), evaluate)


class Region(NamedTuple):
    """A stretch of a sentence; its text may be empty. Numbers count from 1."""

    number: int
    text: str


class SyntaxGymCondition(NamedTuple):
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


class SyntaxGymItem(NamedTuple):
    """The versions of one sentence."""

    number: int
    conditions: tuple[SyntaxGymCondition, ...]


class SyntaxGymSuite(NamedTuple):
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


def _read_region(record: Any, where: str) -> Region:
    return Region(
        _get(record, "region_number", int, where), check_text(_get(record, "content", str, where), where)
    )


def _condition(record: Any, where: str) -> SyntaxGymCondition:
    name = _get(record, "condition_name", str, where)
    regions = [
        _read_region(region, f"{where}, condition {name!r}")
        for region in _get(record, "regions", list, where)
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
