"""Controls, baselines, splits, intervals and conclusions, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.preprocessing import KernelCenterer

from probes._data import Place, ProbeData, ProbeItem, Unit, Words
from probes.conclusions import classification_conclusions
from probes.controls import control_labels, majority, permutation_p, word_identity
from probes.estimators import CkaEstimator, linear_cka, tree_depths, tree_distances, uuas
from probes.estimators.online_code import _ends, _mixed
from probes.estimators.scalar_mix import expected_layer
from probes.estimators.structural import spearman_by_length
from probes.report import ProbeReport
from probes.splits import held_out, split_at, split_items
from workbench.data import DataIdentity
from workbench.errors import DataError
from workbench.estimate import Estimate
from workbench.statistics import student_interval


def data() -> ProbeData:
    """Twelve sentences "the cat sat" / "a dog ran", two documents."""
    sentences, items = [], []
    for s in range(12):
        forms = ("the", "cat", "sat") if s % 2 == 0 else ("a", "dog", "ran")
        sentences.append(Words(forms, None, f"document {s // 6}", f"s{s}"))
        items += [ProbeItem((Place(s, w, w + 1),), "DNV"[w], form) for w, form in enumerate(forms)]
    identity = DataIdentity("toy", "toy.conllu", "0" * 64, len(items))
    return ProbeData("pos", Unit.WORD, tuple(sentences), tuple(items), identity)


def test_control_labels_are_one_a_type_and_follow_the_frequencies() -> None:
    types = [f"w{i % 2000}" for i in range(6000)]
    codes = np.array([0, 0, 0, 1] * 1500)
    labels = control_labels(types, codes, seed=0)
    assert all(labels[i] == labels[i % 2000] for i in range(6000))
    assert labels[:2000].mean() == pytest.approx(0.25, abs=0.03)  # s.e. of a share of 2,000 is 0.01
    assert (control_labels(types, codes, seed=1) != labels).any()


def test_baselines_by_hand() -> None:
    codes = np.array([0, 1, 1, 2, 1])
    assert majority(codes, 2).tolist() == [1, 1]
    guess = word_identity(["a", "b", "a", "c", "a"], codes, ["a", "c", "never seen"])
    assert guess.tolist() == [1, 2, 1]


def test_a_permutation_test_of_ten_clusters_that_agree() -> None:
    # of the 2^10 ways to flip signs two are as extreme: p = 2 / 1024
    p = permutation_p(np.ones(20), np.repeat(np.arange(10), 2), seed=0, permutations=50_000)
    assert p == pytest.approx(2 / 1024, abs=0.0008)
    assert permutation_p(np.array([1.0, -1.0]), np.array([0, 1]), seed=0) == 1.0


@pytest.mark.parametrize("how", ["sentence", "document", "type"])
def test_no_group_is_on_both_sides(how: str) -> None:
    toy = data()
    split = split_items(toy, how, 0.3, seed=0)
    groups = {
        "sentence": [i.places[0].sentence for i in toy.items],
        "document": [toy.sentences[i.places[0].sentence].document for i in toy.items],
        "type": [i.type for i in toy.items],
    }[how]
    train, test = ({groups[i] for i in part} for part in (split.train, split.test))
    assert train
    assert test
    assert not train & test
    assert len(split.train) + len(split.test) == len(toy)
    assert how in split.statement


def test_one_document_cannot_be_parted() -> None:
    toy = data()
    one = ProbeData(
        toy.task,
        toy.unit,
        tuple(Words(w.forms, None, "only") for w in toy.sentences),
        toy.items,
        toy.identity,
    )
    with pytest.raises(DataError, match="give --train FILE, or --split sentence"):
        split_items(one, "document", 0.2, 0)


def test_held_out_takes_whole_sentences() -> None:
    clusters = np.repeat(np.arange(20), 3)
    held = held_out(clusters, seed=0)
    assert held.reshape(20, 3).all(1).sum() == 2
    assert held.sum() == 6


def test_labels_beyond_the_words_are_told() -> None:
    toy = data()
    with pytest.raises(DataError, match="s0: words 3 to 4 are labelled, but it has 3 words"):
        ProbeData(toy.task, toy.unit, toy.sentences, (ProbeItem((Place(0, 3, 4),), "x", "x"),), toy.identity)


def test_trees_by_hand() -> None:
    # "the cat sat there": the -> cat -> sat <- there
    heads = [1, 2, None, 2]
    assert tree_distances(heads).tolist() == [[0, 1, 2, 3], [1, 0, 1, 2], [2, 1, 0, 1], [3, 2, 1, 0]]
    assert tree_depths(heads).tolist() == [2, 1, 0, 1]
    assert uuas(tree_distances(heads), heads, [0, 1, 2, 3]) == (3, 3)
    # a spanning star around "the" holds one arc of the tree, the-cat
    star = np.array([[0, 1, 1, 1], [1, 0, 9, 9], [1, 9, 0, 9], [1, 9, 9, 0]], float)
    assert uuas(star, heads, [0, 1, 2, 3]) == (1, 3)
    # without "there" (say, punctuation) two arcs are left
    assert uuas(tree_distances(heads), heads, [0, 1, 2]) == (2, 2)


def test_means_by_length_count_each_length_once() -> None:
    assert spearman_by_length([1.0, 0.0, 0.5], [6, 6, 9]) == 0.5
    assert spearman_by_length([0.25], [3]) == 0.25  # nothing between 5 and 50


def test_the_expected_layer_of_tenney_et_al() -> None:
    # gains 0.2 at layer 1 and 0.1 at layer 2: (1 * 0.2 + 2 * 0.1) / 0.3
    assert expected_layer(np.array([0.5, 0.7, 0.8]), (0, 1, 2)) == pytest.approx(4 / 3)
    assert np.isnan(expected_layer(np.array([0.5, 0.5]), (0, 1)))


@pytest.mark.parametrize("estimator", list(CkaEstimator))
def test_cka_is_one_for_equal_geometry(estimator: CkaEstimator) -> None:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(200, 5))
    rotation = np.linalg.qr(draw.normal(size=(5, 5)))[0]
    assert linear_cka(x, 3 * x @ rotation + 7, estimator) == pytest.approx(1.0)
    assert np.isnan(linear_cka(np.ones((5, 2)), x[:5], estimator))


def test_cka_by_hand() -> None:
    x, y = np.array([[1.0], [-1.0], [0.0]]), np.array([[1.0], [1.0], [-2.0]])
    assert linear_cka(x, y, "biased") == pytest.approx(0.0, abs=1e-12)  # x'y = 1 - 1 + 0
    with pytest.raises(DataError, match="3 rows: the debiased CKA needs at least 4"):
        linear_cka(x, y)
    with pytest.raises(DataError, match="unknown estimator 'unbiased'"):
        linear_cka(x, y, "unbiased")


def test_cka_equals_the_cosine_of_centred_kernel_matrices() -> None:
    """Biased: centred by scikit-learn. Debiased: U-centred as Szekely & Rizzo 2014 define it, with loops."""
    draw = np.random.default_rng(1)
    x = draw.normal(size=(9, 4)) + 3
    y = x[:, :2] @ draw.normal(size=(2, 6)) + draw.normal(size=(9, 6))

    def u_centred(kernel: np.ndarray) -> np.ndarray:
        n, k = len(kernel), kernel - np.diag(np.diag(kernel))
        found = np.zeros((n, n))
        for i in range(n):
            for j in range(n):
                rows = (k[i].sum() + k[:, j].sum()) / (n - 2)
                found[i, j] = 0 if i == j else k[i, j] - rows + k.sum() / ((n - 1) * (n - 2))
        return found

    for estimator, centred in (("biased", KernelCenterer().fit_transform), ("debiased", u_centred)):
        a, b = (centred(z @ z.T) for z in (x, y))
        expected = (a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum())
        assert linear_cka(x, y, estimator) == pytest.approx(expected, abs=1e-12)


def test_the_debiased_cka_of_independent_features_is_about_zero() -> None:
    """60 rows of width 576, 20 draws: the biased one is near 1, the other within four standard errors of 0."""
    draw = np.random.default_rng(2)
    pairs = [(draw.normal(size=(60, 576)), draw.normal(size=(60, 576))) for _ in range(20)]
    debiased = np.array([linear_cka(x, y) for x, y in pairs])
    assert abs(debiased.mean()) < 4 * debiased.std(ddof=1) / np.sqrt(20)
    assert min(linear_cka(x, y, "biased") for x, y in pairs) > 0.9


def test_the_online_code_mixes_strengths_by_what_they_coded() -> None:
    # two blocks of two rows: one strength says 1/2 for each row, the other 1
    bits = _mixed([np.log([0.5**2, 1.0])] * 2)
    assert bits[0] == pytest.approx(-np.log2(0.5 * (0.25 + 1)))
    # their weights are now 0.25 : 1, that is 0.2 and 0.8
    assert bits[1] == pytest.approx(-np.log2(0.2 * 0.25 + 0.8))
    assert _ends(1000, 4) == [8, 16, 32, 63, 125, 250, 500, 1000]


def estimate(value: float, low: float, high: float) -> Estimate:
    return Estimate(value=value, standard_error=0.01, low=low, high=high, n=100)


def said(**values: float) -> str:
    accuracy = estimate(values["accuracy"], values["accuracy"] - 0.02, values["accuracy"] + 0.02)
    control = estimate(values["control"], values["control"] - 0.02, values["control"] + 0.02)
    gap = values["accuracy"] - values["control"]
    series = {
        "accuracy": (accuracy,),
        "control task": (control,),
        "selectivity": (estimate(gap, gap - 0.02, gap + 0.02),),
        "random weights": (estimate(values["random"], 0, 1),),
    }
    p_values = {"random weights": values["p"], "word identity": 0.001}
    baselines = {"word identity": estimate(0.6, 0.5, 0.7)}
    sentences, seen = int(values["sentences"]), values.get("seen", 1.0)
    lines = classification_conclusions((3,), series, baselines, p_values, [3], sentences, seen)
    return " ".join(lines)


def test_conclusions_say_what_the_controls_allow() -> None:
    good = said(accuracy=0.95, control=0.5, random=0.7, p=0.001, sentences=100)
    assert "above every comparison" in good
    assert "did not get there by memorising" in good
    assert "does not say that the model uses it" in good
    weak = said(accuracy=0.71, control=0.68, random=0.70, p=0.4, sentences=10)
    assert "not established to be above random weights" in weak
    assert "may have memorised words" in weak
    assert "Only 10 test sentences" in weak
    new = said(accuracy=0.95, control=0.5, random=0.7, p=0.001, sentences=100, seen=0.1)
    assert "only 10% of the test items are of a type seen in training" in new


def test_words_of_the_training_file_are_left_out_of_the_test_by_type() -> None:
    toy = data()  # twelve sentences; "the cat sat" stands before "a dog ran"
    by_sentence = split_at(toy, 1)
    assert (len(by_sentence.train), len(by_sentence.test)) == (3, 33)
    by_type = split_at(toy, 1, "type")
    assert {toy.items[i].type for i in by_type.train} == {"the", "cat", "sat"}
    assert {toy.items[i].type for i in by_type.test} == {"a", "dog", "ran"}
    with pytest.raises(DataError, match="every word of the test file"):
        split_at(toy, 2, "type")


def test_an_interval_from_few_draws_is_students() -> None:
    # the 97.5 % quantile of Student's t with two degrees of freedom is 4.303 (any table)
    found = student_interval(1.0, 0.1, 3, "t")
    assert (found.low, found.high) == (pytest.approx(0.5697, abs=1e-4), pytest.approx(1.4303, abs=1e-4))
    assert np.isnan(student_interval(1.0, float("nan"), 1, "t").low)


def test_a_figure_draws_compression_as_the_part_of_the_code_length() -> None:
    accuracy, compression = student_interval(0.9, 0.01, 3, "t"), student_interval(4.0, 0.1, 3, "t")
    report = ProbeReport(
        model="m",
        task="pos",
        probe="mdl",
        metric="accuracy",
        layers=(0, 1),
        series={"accuracy": (accuracy,) * 2, "compression": (compression,) * 2},
    )
    frame = report.figure().to_frame()
    length = frame[frame["curve"] == "code length"]
    assert length["y"].tolist() == [0.25, 0.25]
    assert length["low"].tolist() == pytest.approx([1 / compression.high] * 2)
    assert set(report.to_frame()["series"]) == {"accuracy", "compression"}
