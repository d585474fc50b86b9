"""Numbers that carry their uncertainty: the records, the resampling that fills them, and paired tests."""

from __future__ import annotations

from workbench.estimate import Estimate
from workbench.statistics._bootstrap import bootstrap
from workbench.statistics._corrections import benjamini_hochberg, holm
from workbench.statistics._mean import mean_estimate
from workbench.statistics._measures import (
    Measure,
    bits_per_unit_measure,
    f1_measure,
    macro_f1_measure,
    matthews_measure,
    mean_measure,
    pearson_measure,
    perplexity_measure,
    spearman_measure,
    unit_perplexity_measure,
)
from workbench.statistics._paired import (
    McNemar,
    mcnemar,
    minimum_detectable_difference,
    paired_difference,
    paired_permutation,
)
from workbench.statistics._proportion import wilson
from workbench.statistics._record import Statistic
from workbench.statistics._seeds import SeedEstimate, over_seeds

__all__ = [
    "Estimate",
    "McNemar",
    "Measure",
    "SeedEstimate",
    "Statistic",
    "benjamini_hochberg",
    "bits_per_unit_measure",
    "bootstrap",
    "f1_measure",
    "holm",
    "macro_f1_measure",
    "matthews_measure",
    "mcnemar",
    "mean_estimate",
    "mean_measure",
    "minimum_detectable_difference",
    "over_seeds",
    "paired_difference",
    "paired_permutation",
    "pearson_measure",
    "perplexity_measure",
    "spearman_measure",
    "unit_perplexity_measure",
    "wilson",
]
