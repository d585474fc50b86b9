"""The scalar that carries its uncertainty; in the foundation because runs store it and statistics make it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Estimate"]


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """One number with its standard error and confidence interval.

    ``low`` and ``high`` bound the ``confidence`` interval; ``method`` says how it was made
    ("percentile bootstrap", "wilson", ...); ``n`` is the number of independent items behind it.
    """

    value: float
    standard_error: float
    low: float
    high: float
    n: int
    confidence: float = 0.95
    method: str = "percentile bootstrap"
    higher_is_better: bool | None = True  # None where neither is

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionary; infinities and NaN become ``None`` so that it is valid JSON."""
        return {
            k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in asdict(self).items()
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Estimate:
        """The inverse of :meth:`to_dict`."""
        known: dict[str, Any] = {
            k: math.nan if v is None and k != "higher_is_better" else v for k, v in record.items()
        }
        return cls(**known)

    def __str__(self) -> str:
        return f"{self.value:.4f} [{self.low:.4f}, {self.high:.4f}]"
