"""Directions between two groups of texts: areas and cosines as scikit-learn and a hand computation have them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from sklearn.metrics.pairwise import cosine_similarity

import workbench
from probes.directions import DirectionFeatures, TextGroups, direction_statistics, read_groups
from probes.estimators import cka_estimate, linear_cka
from tests.helpers import assert_near
from tests.unit.tiny import tiny_causal
from workbench.errors import DataError


def groups(count: int = 20) -> TextGroups:
    return TextGroups.of([f"text {n}" for n in range(count)], ["b" if n % 2 else "a" for n in range(count)])


def features(found: TextGroups, shift: float, seed: int) -> DirectionFeatures:
    """Two layers of noise, in the second of which the groups lie ``shift`` apart."""
    values = np.random.default_rng(seed).normal(size=(2, len(found.texts), 5))
    values[1, found.second, 0] += shift
    return DirectionFeatures(values, np.ones(len(found.texts), dtype=bool), (0, 1))


def test_areas_and_cosines():
    found = groups()
    before, after = features(found, 0.5, 0), features(found, 3.0, 1)
    statistics = direction_statistics(before, after, found)
    fit, test = ~found.held, found.held
    for layer in (0, 1):
        directions = []
        for name, one in (("AUC before", before), ("AUC after", after)):
            x = one.values[layer]
            directions.append(x[fit & found.second].mean(0) - x[fit & ~found.second].mean(0))
            expected = roc_auc_score(found.second[test], x[test] @ directions[-1])
            assert statistics[name].at(layer=layer) == pytest.approx(expected, abs=1e-12)
        expected = cosine_similarity(*(d[None] for d in directions))[0, 0]
        assert statistics["cosine of directions"].at(layer=layer) == pytest.approx(expected, abs=1e-12)
    change = statistics["change of AUC"]
    assert_near(change.values, statistics["AUC after"].values - statistics["AUC before"].values, 1e-9)
    assert statistics["AUC after"].at(layer=1) > 0.9


def test_the_same_features_point_the_same_way():
    found = groups()
    before = features(found, 1.0, 0)
    statistics = direction_statistics(before, before, found)
    assert_near(statistics["cosine of directions"].values, np.ones(2), 1e-12)
    assert np.abs(statistics["change of AUC"].values).max() == 0


def test_halves_hold_both_groups():
    found = groups(9)
    assert [(found.second & found.held).sum(), (~found.second & found.held).sum()] == [2, 2]


def test_bad_tables(tmp_path):
    path = tmp_path / "groups.csv"
    path.write_text("text,label\n" + "".join(f"a cat {n},x\n" for n in range(5)))
    with pytest.raises(DataError, match=r"needs two labels of 4 texts or more each; found x \(5\)"):
        read_groups(path)
    path.write_text("text,kind\na,b\n")
    with pytest.raises(DataError, match="no column 'label'"):
        read_groups(path)
    with pytest.raises(DataError, match="is no table"):
        read_groups(tmp_path / "groups")


def test_probes_and_directions_of_a_model_against_itself(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "groups.csv"
    lines = [f"the {noun} sat,one\nthe {noun} ran,two\n" for noun in ("cat", "dogs", "key", "mat", "table")]
    path.write_text("text,label\n" + "".join(lines))
    model = tiny_causal()
    found = workbench.changes(
        [model, model], ["the cat sat"], parts=(), direction=str(path), probe_task="pos", probe_limit=20
    )
    assert np.abs(found["change of AUC"].values).max() == 0
    assert np.abs(found["change of accuracy of probes: pos"].values).max() == 0
    accuracy = found["accuracy of probes: pos"]
    assert accuracy.labels["model"] == ("tiny", "tiny (2)")
    assert accuracy.low is not None
    assert (accuracy.low <= accuracy.values).all()


def test_cka_without_each_cluster_is_that_of_the_other_rows():
    rng = np.random.default_rng(0)
    clusters = np.repeat(np.arange(12), 5)
    x = rng.normal(size=(60, 8))
    y = x @ rng.normal(size=(8, 20)) + 2 * rng.normal(size=(60, 20)) + 3
    found, floor = cka_estimate(x, y, clusters)
    whole = linear_cka(x, y)
    without = np.array([linear_cka(x[clusters != t], y[clusters != t]) for t in range(12)])
    pseudo = 12 * whole - 11 * without
    assert found.value == pytest.approx(whole, rel=1e-12)
    assert found.standard_error == pytest.approx(pseudo.std(ddof=1) / np.sqrt(12), rel=1e-9)
    assert found.low < whole < found.high
    assert abs(floor) < 0.1
    alone, _ = cka_estimate(x, y, np.zeros(60))
    assert alone.undefined == "one text has no spread"


def test_the_interval_of_cka_covers():
    """Of samples with rows that depend on one another within clusters, about 95 % of intervals hold the true value."""
    rng = np.random.default_rng(0)
    mixing = rng.normal(size=(8, 20))

    def draw(texts: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        shared = np.repeat(rng.normal(size=(texts, 8)), 4, axis=0)
        x = shared + rng.normal(size=(4 * texts, 8))
        return x, x @ mixing + 4 * rng.normal(size=(4 * texts, 20)), np.repeat(np.arange(texts), 4)

    truth = linear_cka(*draw(4000)[:2])
    found = [cka_estimate(*draw(20), pairings=1)[0] for _ in range(200)]
    covered = np.mean([one.low <= truth <= one.high for one in found])
    assert 0.89 <= covered <= 0.99  # 95 % within four standard errors of 200 samples
