"""SyntaxGym's prediction formulas: comparisons of sums of region surprisals, joined by and, or."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import isclose
from typing import TypeAlias

__all__ = ["Formula", "FormulaError", "Surprisals", "parse_formula"]

Surprisals: TypeAlias = Mapping[tuple[str, int], float]
_TOKEN = re.compile(
    r"\s*(?:\(\s*(?P<region>\d+|\*)\s*;\s*%(?P<condition>[^%]+)%\s*\)|(?P<number>\d+(?:\.\d+)?)|(?P<sign>[-+<>=&|()\[\]]))"
)
_EQUAL = 1e-6  # surprisals are sums of floats
_CLOSING = {"(": ")", "[": "]"}
Value: TypeAlias = Callable[[Surprisals], float]
Truth: TypeAlias = Callable[[Surprisals], bool]


class FormulaError(ValueError):
    """A formula does not parse; the message says where."""


@dataclass(frozen=True)
class Formula:
    """A parsed formula and the regions it speaks of; region ``*`` is the whole sentence, written 0."""

    text: str
    regions: frozenset[tuple[str, int]]
    evaluate: Truth = field(repr=False, compare=False)

    def holds(self, surprisals: Surprisals) -> bool:
        """Whether the prediction comes true for surprisals by (condition, region number).

        A region ``*`` sums all regions of its condition.
        """
        return self.evaluate(surprisals)


@dataclass
class _Parser:
    """Recursive descent over: truth := clause (('&' | '|') clause)*; clause := value ('<' | '>' | '=') value."""

    text: str
    position: int = 0
    regions: set[tuple[str, int]] = field(default_factory=set)

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
        return lambda surprisals: isclose(left(surprisals), right(surprisals), abs_tol=_EQUAL)
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
