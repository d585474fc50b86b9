"""One suite over all metrics: what degenerate items leave undefined is said, with the reason; no width is ever zero."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest

from workbench.estimate import Estimate
from workbench.evaluate.metrics import METRICS

# Every column that a metric reads, for one item that is right.
ITEM = {
    **dict.fromkeys(("correct", "correct_norm", "correct_bytes", "exact", "f1"), 1.0),
    **dict.fromkeys(("rouge1", "rouge2", "rougeL", "rougeLsum"), 0.5),
    **{"prediction": 1, "gold": 1, "predicted": "the cat sat down", "references": ["the cat sat here"]},
    **{"entities_right": 1, "entities_predicted": 1, "entities_gold": 1},
    **{"log_probability": -3.0, "tokens": 4, "words": 4, "bytes": 16},
}
DEGENERATE = {
    "one item": [ITEM],
    "equal items": [ITEM] * 6,
    "constant predictions": [{**ITEM, "gold": k % 2} for k in range(6)],
    "one gold class": [{**ITEM, "prediction": k % 2} for k in range(6)],
    "class 0 throughout": [{**ITEM, "prediction": 0, "gold": 0}] * 6,
    "nothing predicted": [{**ITEM, "entities_right": 0, "entities_predicted": 0}] * 6,
    "no gold": [{**ITEM, "entities_right": 0, "entities_gold": 0}] * 6,
    "one cluster": [{**ITEM, "cluster": "c", "gold": k % 2, "prediction": k % 3 % 2} for k in range(6)],
}
# Metrics that have no value there: a share of nothing, a correlation with a constant. What scikit-learn warns about
# (UndefinedMetricWarning, ConstantInputWarning of SciPy) is undefined here.
CORRELATIONS = {"pearson", "spearman", "matthews"}
NO_VALUE = {
    "one item": CORRELATIONS,
    "equal items": CORRELATIONS,
    "constant predictions": CORRELATIONS,
    "one gold class": CORRELATIONS,
    "class 0 throughout": CORRELATIONS | {"f1"},
    "nothing predicted": CORRELATIONS | {"entity_precision"},
    "no gold": CORRELATIONS | {"entity_recall"},
    "one cluster": set(),
}


@pytest.mark.parametrize("case", DEGENERATE)
@pytest.mark.parametrize("name", METRICS.names())
def test_what_is_undefined_is_said(name: str, case: str) -> None:
    pytest.importorskip("sacrebleu" if name in ("bleu", "chrf") else "numpy")
    found = METRICS.get(name).estimate(pd.DataFrame(DEGENERATE[case]), seed=0)
    assert math.isnan(found.value) == (name in NO_VALUE[case])
    if found.undefined:
        assert math.isnan(found.standard_error)
        assert (
            found.low < found.high or np.isnan([found.low, found.high]).all()
        )  # a share of one item has bounds
        assert f"undefined ({found.undefined})" in " ".join(found.cells())
    else:
        assert found.low < found.high
    stored = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert str(Estimate.from_dict(stored)) == str(found)


@pytest.mark.parametrize("name", METRICS.names())
def test_items_that_differ_have_an_interval(name: str) -> None:
    """The same metrics on ordinary items: the rule above does not hold because everything is undefined."""
    pytest.importorskip("sacrebleu" if name in ("bleu", "chrf") else "numpy")
    rng = np.random.default_rng(0)
    rows = [
        {
            **{
                key: float(rng.integers(2))
                for key in ITEM
                if key.startswith(("correct", "exact", "f1", "rouge"))
            },
            **{"prediction": int(rng.integers(2)), "gold": int(rng.integers(2))},
            **{"predicted": " ".join(rng.choice(list("abcdef"), 9)), "references": ["a b c d e f a b c"]},
            **{"entities_right": 1, "entities_predicted": int(rng.integers(1, 4))},
            **{"entities_gold": int(rng.integers(1, 4)), "log_probability": -float(rng.random())},
            **{"tokens": 4, "words": 3, "bytes": 16},
        }
        for _ in range(40)
    ]
    found = METRICS.get(name).estimate(pd.DataFrame(rows), seed=0)
    assert found.undefined is None
    assert found.low < found.value < found.high
