from __future__ import annotations

import numpy as np
import pytest

from workbench.errors import NumericsError
from workbench.statistics import benjamini_hochberg, holm


def test_holm_by_hand():
    # Ordered 0.01, 0.02, 0.03: times 3, 2, 1 and never decreasing: 0.03, 0.04, 0.04.
    assert holm([0.02, 0.01, 0.03]) == pytest.approx([0.04, 0.03, 0.04])


def test_both_equal_statsmodels():
    multitest = pytest.importorskip("statsmodels.stats.multitest")
    p = np.random.default_rng(0).random(40) ** 3
    for ours, name in ((holm, "holm"), (benjamini_hochberg, "fdr_bh")):
        assert ours(p) == pytest.approx(multitest.multipletests(p, method=name)[1])


def test_none_and_out_of_range():
    assert len(holm([])) == 0
    assert len(benjamini_hochberg([])) == 0
    with pytest.raises(NumericsError, match="from 0 to 1"):
        holm([0.5, float("nan")])
