"""The scalar that carries its uncertainty; in the foundation because runs store it and statistics make it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Estimate", "printed", "printed_text"]

# An interval this narrow, relative to its ends, has no width but rounding's.
_ROUNDING = 1e-12
_ZERO_WIDTH = "the values have no spread"
_NOT_STORED = "no reason stored"


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """One number with its standard error and confidence interval.

    ``low`` and ``high`` bound the ``confidence`` interval; ``method`` says how it was made
    ("percentile bootstrap", "wilson", ...); ``n`` is the number of independent items behind it.
    What is undefined is NaN, and ``undefined`` says why: the value (a correlation with constant predictions), only
    its interval where the value is a number (the mean of one item), or only the standard error where the bounds are
    numbers (a share of one item). An interval without width is undefined.
    """

    value: float
    standard_error: float
    low: float
    high: float
    n: int
    confidence: float = 0.95
    method: str = "percentile bootstrap"
    higher_is_better: bool | None = True  # None where neither is
    undefined: str | None = None

    def __post_init__(self) -> None:
        numbers = not any(math.isnan(number) for number in (self.value, self.low, self.high))
        flat = math.isfinite(self.low) and math.isclose(self.low, self.high, rel_tol=_ROUNDING)
        only_error = numbers and not flat and math.isnan(self.standard_error)
        if only_error or self.undefined or flat or not numbers:
            reason = self.undefined or (_ZERO_WIDTH if flat else _NOT_STORED)
            object.__setattr__(self, "undefined", reason)
            for name in () if only_error else ("standard_error", "low", "high"):
                object.__setattr__(self, name, math.nan)

    @classmethod
    def without_interval(
        cls, value: float, n: int, why: str, *, method: str, higher_is_better: bool | None = True
    ) -> Estimate:
        """A value whose interval is undefined, or, for NaN, an undefined value; ``why`` is the reason."""
        nan = math.nan
        return cls(
            value=value,
            standard_error=nan,
            low=nan,
            high=nan,
            n=n,
            method=method,
            higher_is_better=higher_is_better,
            undefined=why,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionary; infinities and NaN become ``None`` so that it is valid JSON.

        What is undefined, in whole or in part, has the key ``undefined`` with the reason, what is infinite is listed
        under ``infinite`` (with its sign); other records have neither, so that older versions read them.
        """
        record = {
            k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in asdict(self).items()
        }
        if record["undefined"] is None:
            del record["undefined"]
        infinite = [f"{self._sign(name)}{name}" for name in _FLOATS if math.isinf(getattr(self, name))]
        return {**record, "infinite": infinite} if infinite else record

    def _sign(self, name: str) -> str:
        return "-" if getattr(self, name) < 0 else ""

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Estimate:
        """The inverse of :meth:`to_dict`.

        Raises :class:`TypeError` naming the first field that is missing, unknown or of another type.
        """
        known: dict[str, Any] = {k: math.nan if v is None and k in _NUMBERS else v for k, v in record.items()}
        for name in known.pop("infinite", ()):
            if str(name).removeprefix("-") not in _FLOATS:
                raise TypeError(f"infinite names {name!r:.60}")
            known[str(name).removeprefix("-")] = -math.inf if str(name).startswith("-") else math.inf
        for name, value in known.items():
            kinds = _OTHERS.get(name, int | float)
            if not isinstance(value, kinds) or (isinstance(value, bool) and name != "higher_is_better"):
                raise TypeError(f"{name} is {value!r:.60}")
        return cls(**known)

    def cells(self, digits: int = 4, sign: str = "") -> tuple[str, str, str, str]:
        """Value, standard error, lower and upper bound as tables print them; ``sign`` is "+" for differences."""
        value, low, high = printed(self.value, self.low, self.high, self.undefined, digits, sign)
        return value, self.error_text(digits) if high else "", low, high

    def error_text(self, digits: int = 4) -> str:
        """The standard error as tables print it, or why it is undefined."""
        if math.isnan(self.standard_error):
            return f"undefined ({self.undefined})"
        return f"{self.standard_error:.{digits}f}"

    def text(self, digits: int = 4, sign: str = "") -> str:
        """Value and interval in one: "0.5000 [0.4000, 0.6000]", or what is undefined and why."""
        return printed_text(self.value, self.low, self.high, self.undefined, digits, sign)

    def interval(self, digits: int = 4, sign: str = "") -> str:
        """The interval alone: "0.4000 to 0.6000", or why it is undefined."""
        value, _, low, high = self.cells(digits, sign)
        return f"{low} to {high}" if high else low or value

    def __str__(self) -> str:
        return self.text()


def printed(
    value: float, low: float, high: float, undefined: str | None, digits: int = 4, sign: str = ""
) -> tuple[str, str, str]:
    """Value and bounds as tables print them; the reason stands for what is undefined."""
    if math.isnan(value):
        return f"undefined ({undefined})", "", ""
    number = f"{value:{sign}.{digits}f}"
    if math.isnan(low):
        return number, f"undefined ({undefined})", ""
    return number, f"{low:{sign}.{digits}f}", f"{high:{sign}.{digits}f}"


_FLOATS = ("value", "standard_error", "low", "high")
_NUMBERS = (*_FLOATS, "n", "confidence")
_OTHERS: dict[str, Any] = {"method": str, "higher_is_better": bool | None, "undefined": str | None}


def printed_text(
    value: float, low: float, high: float, undefined: str | None, digits: int = 4, sign: str = ""
) -> str:
    """What :meth:`Estimate.text` gives, of the columns of a table."""
    shown, start, end = printed(value, low, high, undefined, digits, sign)
    if end:
        return f"{shown} [{start}, {end}]"
    return f"{shown}, interval {start}" if start else shown
