"""Numbers that carry their uncertainty: the records and the resampling that fills them."""

from __future__ import annotations

from workbench.estimate import Estimate
from workbench.statistics._bootstrap import bootstrap
from workbench.statistics._proportion import wilson
from workbench.statistics._record import Statistic

__all__ = ["Estimate", "Statistic", "bootstrap", "wilson"]
