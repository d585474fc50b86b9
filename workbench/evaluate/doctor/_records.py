"""What a check finds, and the report of all of them."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from html import escape
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from workbench.models.batching import relative_tolerance

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Check", "Finding", "NotApplicable", "Report", "Status", "agree", "judge"]


class Status(StrEnum):
    """How a check ended. ``SKIP``: it does not apply to this model; the detail says why."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"


class NotApplicable(Exception):
    """Raised by a check that does not apply to the model; its message is the reason."""


@dataclass(frozen=True)
class Finding:
    """What a check saw. ``value`` is held against ``tolerance``; both are ``None`` where there is no number."""

    status: Status
    value: float | None
    tolerance: float | None
    detail: str


@dataclass(frozen=True)
class Check:
    """The finding of the check called ``name``; ``detail`` is one line."""

    name: str
    status: Status
    value: float | None
    tolerance: float | None
    detail: str

    def to_dict(self) -> dict[str, Any]:
        """Plain values fit for JSON: a number that is not finite becomes ``None``."""
        finite = self.value is not None and math.isfinite(self.value)
        return {
            "name": self.name,
            "status": str(self.status),
            "value": self.value if finite else None,
            "tolerance": self.tolerance,
            "detail": self.detail,
        }


@dataclass(frozen=True, repr=False)
class Report:
    """All checks of one model, in the order they ran."""

    checks: tuple[Check, ...]

    @property
    def verdict(self) -> str:
        """``fail`` if any check failed, else ``warn`` if any warned, else ``pass``; skipped ones do not count."""
        found = {check.status for check in self.checks}
        return str(next((s for s in (Status.FAIL, Status.WARN) if s in found), Status.PASS))

    def to_dict(self) -> dict[str, Any]:
        """``{"verdict": …, "checks": [{"name", "status", "value", "tolerance", "detail"}, …]}``."""
        return {"verdict": self.verdict, "checks": [check.to_dict() for check in self.checks]}

    def to_frame(self) -> pd.DataFrame:
        """One row a check, with the columns name, status, value, tolerance, detail."""
        import pandas as pd

        columns = ["name", "status", "value", "tolerance", "detail"]
        return pd.DataFrame([check.to_dict() for check in self.checks], columns=columns)

    def __repr__(self) -> str:
        counts = Counter(check.status for check in self.checks)
        said = ", ".join(f"{counts[status]} {status}" for status in Status if counts[status])
        wrong = [c.name for c in self.checks if c.status in (Status.WARN, Status.FAIL)]
        return f"<Report {self.verdict}: {said}{'; see ' + ', '.join(wrong) if wrong else ''}>"

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>{self.to_frame().to_html(index=False)}"


def agree(reference: Tensor, other: Tensor, dtype: torch.dtype, detail: str) -> Finding:
    """Hold the largest absolute difference of two equally shaped outputs against what ``dtype`` explains."""
    largest = float(reference.abs().max())
    difference = float((reference - other).abs().max())
    share = relative_tolerance(dtype)
    return judge(
        difference, share * largest, f"{detail}; tolerance {share:g} of the largest output {largest:.3g}"
    )


def judge(value: float, tolerance: float, detail: str) -> Finding:
    """Pass if ``value`` is at most ``tolerance``; a value that is not finite fails and is called by its name."""
    if value != value or value == float("inf"):
        return Finding(Status.FAIL, value, None, "the model gives NaN or infinite outputs")
    return Finding(Status.PASS if value <= tolerance else Status.FAIL, value, tolerance, detail)
