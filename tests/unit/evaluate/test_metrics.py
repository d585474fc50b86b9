"""Metrics against scikit-learn, SciPy, sacreBLEU, rouge-score, and tables worked out by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn import metrics as sk

from workbench.errors import DataError, NumericsError
from workbench.evaluate.metrics import (
    BLEU,
    CHRF,
    ENTITY_METRICS,
    METRICS,
    PERPLEXITIES,
    exact_groups,
    rouge,
    score_labels,
)
from workbench.statistics import best_exact, best_f1, label_spans


def drawn(labels: int, count: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    gold = generator.integers(0, labels, count)
    return np.where(generator.random(count) < 0.6, gold, generator.integers(0, labels, count)), gold


@pytest.mark.parametrize("labels", [2, 3])
def test_label_metrics_equal_scikit_learn(labels):
    predicted, gold = drawn(labels)
    found = score_labels(["accuracy", "macro_f1", "matthews"], predicted, gold)
    assert found["accuracy"].value == pytest.approx(sk.accuracy_score(gold, predicted))
    assert found["macro_f1"].value == pytest.approx(sk.f1_score(gold, predicted, average="macro"))
    assert found["matthews"].value == pytest.approx(sk.matthews_corrcoef(gold, predicted))


def test_f1_is_that_of_label_1():
    predicted, gold = drawn(2)
    assert score_labels(["f1"], predicted, gold)["f1"].value == pytest.approx(sk.f1_score(gold, predicted))


def test_constant_predictions_have_no_correlation():
    """scikit-learn and GLUE's script give 0; a correlation with a constant is 0/0."""
    gold = [0, 1, 1, 0]
    found = score_labels(["matthews"], [1, 1, 1, 1], gold)["matthews"]
    assert str(found) == "undefined (every prediction is 1)"
    found = score_labels(["pearson"], [2.0] * 4, [1.0, 2.0, 3.0, 4.0])["pearson"]
    assert str(found) == "undefined (every prediction is 2)"


def test_correlations_equal_scipy():
    generator = np.random.default_rng(1)
    x = generator.normal(size=200)
    y = x + generator.normal(size=200)
    found = score_labels(["pearson", "spearman"], x, y)
    assert found["pearson"].value == pytest.approx(stats.pearsonr(x, y)[0])
    assert found["spearman"].value == pytest.approx(stats.spearmanr(x, y)[0])
    assert found["pearson"].low < found["pearson"].value < found["pearson"].high


# prediction, gold answers, exact match and F1 by the official rule: lower case, then punctuation, articles, blanks
SQUAD = [
    ("The Cat", ["cat"], 1, 1.0),
    ("a cat.", ["the cat!"], 1, 1.0),
    ("New York", ["New York City"], 0, 0.8),  # 2 of 2 and 2 of 3 words
    ("cat", ["dog", "Cat"], 1, 1.0),  # the best of several answers
    ("cat and dog", ["cat", "dog"], 0, 0.5),  # 1 of 3 and 1 of 1
    ("", ["cat"], 0, 0.0),
    ("theatre", ["atre"], 0, 0.0),  # an article is a word, not a prefix
    ("U.S.", ["US"], 1, 1.0),
    ("cat cat", ["cat"], 0, 2 / 3),  # words count as often as they stand in both
    ("well-known", ["wellknown"], 1, 1.0),  # hyphens vanish
    ("the", ["a"], 1, 0.0),  # nothing is left of either: equal, and v1.1 counts shared words
]


@pytest.mark.parametrize(("predicted", "gold", "exact", "f1"), SQUAD)
def test_squad_rule(predicted, gold, exact, f1):
    assert best_exact(predicted, gold) == exact
    assert best_f1(predicted, gold) == pytest.approx(f1)


def test_in_version_2_nothing_is_right_about_nothing():
    assert best_f1("the", ["a"], empty_matches=True) == 1.0
    assert best_f1("", ["cat"], empty_matches=True) == 0.0
    assert best_f1("New York", ["New York City"], empty_matches=True) == pytest.approx(0.8)


ENTITIES = [
    (["B-PER", "I-PER", "O", "B-LOC"], {(0, 2, "PER"), (3, 4, "LOC")}),
    (["I-PER", "I-PER", "B-PER"], {(0, 2, "PER"), (2, 3, "PER")}),  # IOB1: B only between equal neighbours
    (["B-PER", "I-LOC"], {(0, 1, "PER"), (1, 2, "LOC")}),  # another type starts another entity
    (["O", "O"], set()),
    (["B-PER", "B-PER"], {(0, 1, "PER"), (1, 2, "PER")}),
]


@pytest.mark.parametrize(("tags", "spans"), ENTITIES)
def test_entities_of_iob_tags(tags, spans):
    assert label_spans(tags) == spans


def test_entity_f1_is_over_all_sentences():
    """3 right of 5 predicted and 4 gold: precision 3/5, recall 3/4, F1 6/9."""
    rows = pd.DataFrame(
        {"entities_right": [2, 1, 0], "entities_predicted": [3, 1, 1], "entities_gold": [2, 2, 0]}
    )
    values = {metric.name: metric.estimate(rows, 0).value for metric in ENTITY_METRICS}
    assert values == pytest.approx({"entity_f1": 6 / 9, "entity_precision": 3 / 5, "entity_recall": 3 / 4})


def test_bleu_and_chrf_equal_sacrebleu():
    sacrebleu = pytest.importorskip("sacrebleu", reason='pip install "transformer-workbench[text]"')
    predicted = ["the cat sat on the mat", "a dog ran away quickly today", "two keys"]
    references = ["the cat is on the mat", "the dog ran away very quickly today", "two red keys lay there"]
    rows = pd.DataFrame({"predicted": predicted, "references": [[r] for r in references]})
    assert BLEU.estimate(rows, 0).value == pytest.approx(sacrebleu.corpus_bleu(predicted, [references]).score)
    assert CHRF.estimate(rows, 0).value == pytest.approx(sacrebleu.corpus_chrf(predicted, [references]).score)


def test_rouge_equals_rouge_score():
    scorer = pytest.importorskip(
        "rouge_score.rouge_scorer", reason='pip install "transformer-workbench[text]"'
    )
    names = ["rouge1", "rouge2", "rougeL", "rougeLsum"]
    texts = ("The cats sat.\nDogs ran away.", "A cat was sitting.\nThe dogs ran.")
    expected = scorer.RougeScorer(names, use_stemmer=True).score(texts[1], texts[0])
    assert rouge(*texts) == pytest.approx({name: expected[name].fmeasure for name in names})


def test_perplexities_by_hand():
    """12 nats over 6 tokens, 4 words and 24 bytes."""
    rows = pd.DataFrame(
        {"log_probability": [-8.0, -4.0], "tokens": [4, 2], "words": [3, 1], "bytes": [16, 8]}
    )
    values = {metric.name: metric.estimate(rows, 0).value for metric in PERPLEXITIES}
    assert values["token_perplexity"] == pytest.approx(np.exp(2.0))
    assert values["word_perplexity"] == pytest.approx(np.exp(3.0))
    assert values["byte_perplexity"] == pytest.approx(np.exp(0.5))
    assert values["bits_per_byte"] == pytest.approx(0.5 / np.log(2))


def test_questions_are_right_when_all_their_answers_are():
    rows = pd.DataFrame({"group": ["a", "a", "b", "b"], "correct": [True, True, True, False]})
    assert exact_groups().estimate(rows, 0).value == 0.5


def test_proportions_have_wilsons_interval_and_clusters_a_wider_one():
    """Wilson (1927) for 8 of 10: 0.490 to 0.943. Ten copies of each item say no more than one."""
    right = np.array([1] * 8 + [0] * 2, dtype=float)
    alone = METRICS.get("accuracy").estimate(pd.DataFrame({"correct": right}), 0)
    assert (alone.low, alone.high) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    copies = pd.DataFrame({"correct": np.repeat(right, 10), "cluster": np.repeat(np.arange(10), 10)})
    clustered = METRICS.get("accuracy").estimate(copies, 0)
    assert clustered.n == 10
    assert clustered.standard_error == pytest.approx(np.sqrt(0.8 * 0.2 / 10), rel=0.1)


def test_f1_over_clusters_resamples_clusters():
    predicted, gold = drawn(2, count=40)
    rows = pd.DataFrame({"prediction": np.repeat(predicted, 5), "gold": np.repeat(gold, 5)})
    once = METRICS.get("f1").estimate(pd.DataFrame({"prediction": predicted, "gold": gold}), 0)
    copied = METRICS.get("f1").estimate(rows.assign(cluster=np.repeat(np.arange(40), 5)), 0)
    assert copied.value == pytest.approx(once.value)
    assert copied.standard_error == pytest.approx(once.standard_error, rel=0.1)
    assert "over clusters" in copied.method


BAD = [
    ({"predicted": [0, 1], "gold": [0]}, "2 predictions for 1 gold labels"),
    ({"predicted": [], "gold": []}, "no predictions"),
    ({"predicted": [float("nan")], "gold": [0]}, "finite number"),
    ({"predicted": ["maybe"], "gold": ["yes"], "labels": ("no", "yes")}, "outside the set; allowed: no, yes"),
    ({"predicted": ["maybe"], "gold": ["yes"]}, "no number"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_what_cannot_be_scored_is_refused(arguments, message):
    with pytest.raises(DataError, match=message):
        score_labels(["accuracy"], **arguments)


def test_labels_by_name():
    found = score_labels(["accuracy"], ["yes", "no"], ["yes", "yes"], labels=("no", "yes"))
    assert found["accuracy"].value == 0.5


def test_no_items_and_nan_are_refused():
    with pytest.raises(NumericsError, match="no items"):
        METRICS.get("accuracy").estimate(pd.DataFrame({"correct": []}), 0)
    rows = pd.DataFrame({"log_probability": [float("nan")], "tokens": [1], "words": [1], "bytes": [1]})
    with pytest.raises(NumericsError, match="not finite"):
        PERPLEXITIES[0].estimate(rows, 0)
