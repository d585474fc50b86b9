"""Known truth, for every registered probe: features made so that the right answer is known beforehand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from probes.controls import control_labels
from probes.estimators import INLPEraser, LeaceEraser, LinearProbe, online_code
from probes.estimators.structural import tree_distances
from probes.settings import PROBES, ProbeKind, Reads
from probes.solvers import Rows
from workbench.errors import TaskError

LAYERS, PLANTED, WIDTH = 4, 2, 16
KINDS = [PROBES.get(name) for name in PROBES]
LABELLED = [kind for kind in KINDS if kind.reads is not Reads.TREES]


def ids(kind: ProbeKind) -> str:
    return kind.name


def planted(seed: int, rows: int = 1600) -> tuple[np.ndarray, np.ndarray]:
    """Noise (N, L, D); only layer 2 carries the label: its first feature is 3 larger for "b"."""
    draw = np.random.default_rng(seed)
    features = draw.normal(size=(rows, LAYERS, WIDTH)).astype(np.float32)
    labels = draw.choice(["a", "b"], size=rows)
    features[:, PLANTED, 0] += 5.0 * (labels == "b")
    return features, labels


def xor(seed: int, rows: int = 2400) -> tuple[np.ndarray, np.ndarray]:
    """Noise; in layer 2 the label is whether two features have one sign: no line parts the classes."""
    draw = np.random.default_rng(seed)
    features = draw.normal(size=(rows, LAYERS, WIDTH)).astype(np.float32)
    signs = draw.choice([-1.0, 1.0], size=(rows, 2))
    features[:, PLANTED, :2] = 4.0 * signs + 0.5 * features[:, PLANTED, :2]
    return features, np.where(signs[:, 0] == signs[:, 1], "same", "other")


def accuracy_by_layer(kind: ProbeKind, make: Any) -> list[float]:
    """Test accuracy at each layer alone; a probe over all layers sees copies of that layer only."""
    (x, y), (x_test, y_test) = make(0), make(1)
    found = []
    for layer in range(LAYERS):
        part, part_test = (
            f[:, layer] if kind.reads is Reads.LAYER else f[:, layer : layer + 1] for f in (x, x_test)
        )
        found.append(float(np.mean(kind.make().fit(part, y).predict(part_test) == y_test)))
    return found


@pytest.mark.parametrize("kind", LABELLED, ids=ids)
def test_a_linear_property_is_found_in_its_layer_and_nowhere_else(kind: ProbeKind) -> None:
    # Gaussians 5 standard deviations apart: 99.4 % at best; elsewhere chance is 50 % (s.e. 1.25 points)
    found = accuracy_by_layer(kind, planted)
    assert found[PLANTED] > 0.95
    assert max(found[:PLANTED] + found[PLANTED + 1 :]) < 0.56


@pytest.mark.parametrize("kind", LABELLED, ids=ids)
def test_an_exclusive_or_is_found_only_by_what_is_not_linear(kind: ProbeKind) -> None:
    found = accuracy_by_layer(kind, xor)
    if kind.linear:
        # a line can part three of the four corners at best only by giving up one: no better than chance here
        assert found[PLANTED] < 0.60
    else:
        assert found[PLANTED] > 0.90
    assert max(found[:PLANTED] + found[PLANTED + 1 :]) < 0.56


@pytest.mark.parametrize("kind", [k for k in KINDS if k.reads is Reads.LAYERS], ids=ids)
def test_a_mixture_leans_on_the_layer_that_carries_the_property(kind: ProbeKind) -> None:
    (x, y), (x_test, y_test) = planted(0), planted(1)
    fitted = kind.make().fit(x, y)
    assert fitted.weights_.sum() == pytest.approx(1.0, abs=1e-5)
    assert int(fitted.weights_.argmax()) == PLANTED
    assert fitted.center_of_gravity_ == pytest.approx(PLANTED, abs=0.3)
    assert np.mean(fitted.predict(x_test) == y_test) > 0.95


@pytest.mark.parametrize("kind", KINDS, ids=ids)
def test_the_interface_is_that_of_scikit_learn(kind: ProbeKind) -> None:
    probe = kind.make()
    twin = clone(probe)  # no logic in __init__: parameters come back as they went in
    assert twin.get_params() == probe.get_params()
    assert not [name for name in vars(probe) if name.endswith("_")]


@pytest.mark.parametrize("kind", LABELLED, ids=ids)
def test_one_class_and_broken_features_are_refused_in_one_line(kind: ProbeKind) -> None:
    x, y = planted(0, rows=20)
    part = x[:, PLANTED] if kind.reads is Reads.LAYER else x
    with pytest.raises(TaskError, match="at least two classes"):
        kind.make().fit(part, np.full(20, "a"))
    broken = part.copy()
    broken[0] = np.nan
    with pytest.raises(TaskError, match="NaN"):
        kind.make().fit(broken, y)
    with pytest.raises(TaskError, match="axes"):
        kind.make().fit(part[..., 0], y) if kind.reads is Reads.LAYERS else kind.make().fit(x, y)


@pytest.mark.parametrize("kind", LABELLED, ids=ids)
def test_the_same_seed_gives_the_same_probe(kind: ProbeKind) -> None:
    x, y = xor(0, rows=300)
    part = x[:, PLANTED] if kind.reads is Reads.LAYER else x
    first, second = (kind.make().fit(part, y).predict(part) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def random_tree(draw: np.random.Generator, size: int) -> list[int | None]:
    """Each word hangs on a random earlier one, the first is the root."""
    return [None, *(int(draw.integers(w)) for w in range(1, size))]


def planted_trees(seed: int, count: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Vectors are a rotated image of each word's path from the root: squared distances are tree distances."""
    draw = np.random.default_rng(seed)
    rotation = np.linalg.qr(np.random.default_rng(99).normal(size=(24, 24)))[0]
    vectors, distances = [], []
    for _ in range(count):
        heads = random_tree(draw, 8)
        paths = np.zeros((8, 24))
        for word, head in enumerate(heads):
            if head is not None:
                paths[word] = paths[head]
                paths[word, word] = 1.0  # an axis for each arc
        noise = 3.0 * draw.normal(size=(8, 24)) * (np.arange(24) >= 8)  # 16 axes know nothing of the tree
        vectors.append((paths + noise) @ rotation)
        distances.append(tree_distances(heads))
    return vectors, distances


@pytest.mark.parametrize("kind", [k for k in KINDS if k.reads is Reads.TREES], ids=ids)
def test_planted_trees_are_found(kind: ProbeKind) -> None:
    x, y = planted_trees(0, 400)
    x_test, y_test = planted_trees(1, 60)
    fitted = kind.make().set_params(rank=8, epochs=100, learning_rate=0.02).fit(x, y)
    assert fitted.score(x_test, y_test) > 0.94  # 1 for the exact projection; noise breaks ties
    shuffled = [v[np.random.default_rng(i).permutation(8)] for i, v in enumerate(x)]
    blind = kind.make().set_params(rank=8, epochs=100, learning_rate=0.02).fit(shuffled, y)
    assert blind.score(x_test, y_test) < 0.6


def typed(seed: int) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """400 word types in 24 features, far too many to tell apart linearly; one feature carries a property of context."""
    draw = np.random.default_rng(seed)
    types = np.random.default_rng(7).normal(size=(400, 24))
    which = draw.integers(400, size=4000)
    real = draw.integers(2, size=4000)
    features = types[which] + 0.1 * draw.normal(size=(4000, 24))
    features[:, 0] = 3.0 * real + 0.5 * draw.normal(size=4000)
    return features.astype(np.float32), real, [f"type {w}" for w in which]


def test_selectivity_is_high_for_a_real_and_near_zero_for_a_memorised_property() -> None:
    (x, real, names), (x_test, real_test, names_test) = typed(0), typed(1)
    both = names + names_test
    memorised = control_labels(both, np.concatenate([real, real_test]), seed=3)
    control = control_labels(both, np.concatenate([real, real_test]), seed=4)

    def accuracy(labels: np.ndarray) -> float:
        return float(np.mean(LinearProbe().fit(x, labels[:4000]).predict(x_test) == labels[4000:]))

    base = accuracy(control)
    assert accuracy(np.concatenate([real, real_test])) - base > 0.3
    assert abs(accuracy(memorised) - base) < 0.05


def test_the_online_code_is_shorter_for_a_real_than_for_a_memorised_property() -> None:
    x, real, names = typed(0)
    memorised = control_labels(names, real, seed=3)
    noise = np.random.default_rng(5).integers(2, size=4000)
    codes = online_code(Rows.of(x), np.stack([real, memorised, noise]), 2)
    assert codes[0].compression > 2 * codes[1].compression
    # nobody can compress coin flips: the code is as long as the uniform one, and a little for trying
    assert 0.85 < codes[2].compression <= 1.0
    assert codes[0].uniform_bits == 4000


@pytest.mark.parametrize("eraser", [LeaceEraser(), INLPEraser()], ids=["leace", "inlp"])
def test_erasure_removes_the_property_and_nothing_orthogonal(eraser: Any) -> None:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(4000, 12))
    gone, kept = draw.integers(2, size=(2, 4000))
    direction = np.linalg.qr(draw.normal(size=(12, 12)))[0]
    x += 4.0 * (np.outer(gone - 0.5, direction[0]) + np.outer(kept - 0.5, direction[1]))
    before = LinearProbe().fit(x, gone).score(x, gone)
    erased = eraser.fit(x, gone).transform(x)
    majority = max(gone.mean(), 1 - gone.mean())
    assert before > 0.95
    assert LinearProbe().fit(erased, gone).score(erased, gone) < majority + 0.03
    assert LinearProbe().fit(erased, kept).score(erased, kept) > 0.95
    # nothing but the one direction moved
    moved = np.abs((erased - x) @ direction[2:].T).max()
    assert moved < 0.5 * np.abs((erased - x) @ direction[0]).max()
