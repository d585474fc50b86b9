"""Numbers that carry their uncertainty: the records, the resampling that fills them, and paired tests."""

from __future__ import annotations

from workbench.estimate import Estimate
from workbench.statistics._answers import best_exact, best_f1, normalized, swept_threshold, threshold_measure
from workbench.statistics._bootstrap import bootstrap
from workbench.statistics._intervals import clustered_wilson, mean_estimate, proportion, wilson
from workbench.statistics._measures import (
    Measure,
    bits_per_unit_measure,
    f1_measure,
    kappa_measure,
    label_spans,
    macro_f1_measure,
    matthews_measure,
    mean_measure,
    measure_estimate,
    pearson_measure,
    perplexity_measure,
    span_f1_measure,
    span_precision_measure,
    span_recall_measure,
    spearman_measure,
    unit_perplexity_measure,
)
from workbench.statistics._paired import (
    McNemar,
    benjamini_hochberg,
    holm,
    mcnemar,
    minimum_detectable_difference,
    paired_difference,
    paired_permutation,
)
from workbench.statistics._preferences import (
    ELO_MEAN,
    Strengths,
    Ties,
    bradley_terry,
    length_controlled_win_rate,
)
from workbench.statistics._record import Statistic, join_statistics
from workbench.statistics._seeds import SeedEstimate, over_seeds, student_interval

__all__ = [
    "ELO_MEAN",
    "Estimate",
    "McNemar",
    "Measure",
    "SeedEstimate",
    "Statistic",
    "Strengths",
    "Ties",
    "benjamini_hochberg",
    "best_exact",
    "best_f1",
    "bits_per_unit_measure",
    "bootstrap",
    "bradley_terry",
    "clustered_wilson",
    "f1_measure",
    "holm",
    "join_statistics",
    "kappa_measure",
    "label_spans",
    "length_controlled_win_rate",
    "macro_f1_measure",
    "matthews_measure",
    "mcnemar",
    "mean_estimate",
    "mean_measure",
    "measure_estimate",
    "minimum_detectable_difference",
    "normalized",
    "over_seeds",
    "paired_difference",
    "paired_permutation",
    "pearson_measure",
    "perplexity_measure",
    "proportion",
    "span_f1_measure",
    "span_precision_measure",
    "span_recall_measure",
    "spearman_measure",
    "student_interval",
    "swept_threshold",
    "threshold_measure",
    "unit_perplexity_measure",
    "wilson",
]
