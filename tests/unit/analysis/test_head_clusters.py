"""Divergence between heads by hand, and groups of heads that attend alike."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon

import workbench
from tests.helpers import assert_near
from tests.unit.tiny import tiny_causal
from workbench.analysis.head_clusters import attention_divergence, head_clusters, head_clusters_of
from workbench.analysis.survey import SurveySettings, survey
from workbench.cli._survey_text import survey_text
from workbench.errors import ConfigError
from workbench.figures.stored import survey_figures

TEXTS = ["the cat sat", "a dogs ran the cat"]


def test_divergence_by_hand_and_beside_scipy() -> None:
    found = attention_divergence(np.array([[[1.0, 0.0]], [[0.0, 1.0]], [[0.5, 0.5]]]))
    assert_near(np.diag(found), np.zeros(3))
    assert_near(found[0, 1], 1.0)  # nothing in common: one bit
    assert_near(
        found[0, 2], 0.5 * (np.log2(1 / 0.75) + 0.5 * np.log2(0.5 / 0.75) + 0.5 * np.log2(0.5 / 0.25))
    )
    drawn = np.random.default_rng(0).dirichlet(np.ones(5), (4, 6))
    theirs = [[(jensenshannon(a, b, axis=-1, base=2) ** 2).mean() for b in drawn] for a in drawn]
    assert_near(attention_divergence(drawn), theirs)


def test_the_divergence_needs_the_memory_of_a_pair_of_heads() -> None:
    drawn = np.random.default_rng(0).dirichlet(np.ones(128), (24, 128)).astype(np.float32)
    tracemalloc.start()
    attention_divergence(drawn)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 * 128 * 128 * 8  # of all heads in float64 it would be 24 matrices


def test_heads_are_grouped_by_their_divergence_over_texts() -> None:
    model = tiny_causal()
    found = head_clusters(model, TEXTS, 3)
    traces = [workbench.trace(model, text, {"attention"})[0].attention for text in TEXTS]
    sums = sum(len(t[0, 0]) * attention_divergence(t.reshape(-1, *t.shape[2:])) for t in traces)
    assert_near(found.divergence, sums / sum(len(t[0, 0]) for t in traces))
    frame = found.to_frame()
    assert frame["cluster"].nunique() == 3
    assert [tuple(pair) for pair in frame[["layer", "head"]].to_numpy()] == list(found.heads)
    same = found.cluster[:, None] == found.cluster
    nearest = np.where(np.eye(len(same), dtype=bool), np.inf, found.divergence).argmin(1)
    paired = [k for k in range(len(same)) if nearest[nearest[k]] == k]
    assert paired
    assert all(same[k, nearest[k]] for k in paired if same.sum(1)[k] > 1)
    names = [line.split(" (")[0] for line in found.figure().to_frame()["head"].unique()]
    assert names == [f"{layer}-{head}" for layer, head in (found.heads[n] for n in found.order)]


def test_a_survey_stores_them(tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    run = survey(tiny_causal(), SurveySettings(corpus=str(tmp_path / "texts.txt"), clusters=3), out=tmp_path)
    stored, direct = head_clusters_of(run), head_clusters(tiny_causal(), TEXTS, 3)
    assert stored is not None
    assert_near(stored.divergence, direct.divergence)
    assert stored.to_frame()["cluster"].tolist() == direct.to_frame()["cluster"].tolist()
    assert stored.heads == direct.heads
    assert "head clusters" in survey_figures(run)
    assert "cluster  heads  divergence (bits)" in survey_text(run)
    plain = survey(tiny_causal(), SurveySettings(corpus=str(tmp_path / "texts.txt")), out=tmp_path)
    assert head_clusters_of(plain) is None
    assert plain.record.recipe["clusters"] is None
    with pytest.raises(ConfigError, match="clusters is 0"):
        SurveySettings(corpus="x", clusters=0)


def test_mistakes() -> None:
    with pytest.raises(ConfigError, match="count is 0"):
        head_clusters(tiny_causal(), TEXTS, 0)
    with pytest.raises(ConfigError, match="clusters need a text"):
        head_clusters(tiny_causal(), [])
