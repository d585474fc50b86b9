"""Numbers that carry their uncertainty: the records and the resampling that fills them."""

from __future__ import annotations

from workbench.statistics._record import Estimate, Statistic

__all__ = ["Estimate", "Statistic"]
