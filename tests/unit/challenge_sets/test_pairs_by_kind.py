"""Minimal pairs under masked models and encoder-decoders, and saliency in explanations: worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, T5Config, T5ForConditionalGeneration

from challenge_sets import MinimalPair, explain
from challenge_sets.checking import check
from challenge_sets.pairs import pair_scorer, score_pairs
from challenge_sets.sets.base import QuestionSet
from challenge_sets.sets.minimal_pairs import CROWS_PAIRS, PairSet
from challenge_sets.tables import failing
from tests.model_folders import SIZES, framed_tokenizer
from tests.unit.scoring.test_masked import by_hand, tiny_bert
from tests.unit.tiny import loaded, tiny_causal, word_tokenizer
from workbench import attribute
from workbench.evaluate import evaluate
from workbench.evaluate.compare import compare
from workbench.models import Kind, LoadedModel
from workbench.report import render_report

TEXTS = ("the catsat ran on the mat", "the cat ran on the mat")
SHARED = "the keys to the cabinet"


def pair(good: str, bad: str) -> MinimalPair:
    return MinimalPair("0", "set", "paradigm", "phenomenon", good, bad)


@pytest.mark.parametrize("masking", ["original", "within_word_l2r"])
def test_a_masked_model_gives_pseudo_log_likelihoods(masking: str) -> None:
    model = tiny_bert()
    first, second = (by_hand(model, text, masking == "within_word_l2r") for text in TEXTS)
    (total,) = score_pairs(pair_scorer(model, masking=masking), [TEXTS])
    (mean,) = score_pairs(pair_scorer(model, masking=masking, reduction_name="mean"), [TEXTS])
    (word,) = score_pairs(pair_scorer(model, masking=masking, reduction_name="word"), [TEXTS])
    assert (total.first, total.second) == pytest.approx((sum(first), sum(second)), abs=1e-4)
    assert mean.first == pytest.approx(sum(first) / 7, abs=1e-5)  # cats ##at count as two
    assert word.first == pytest.approx(sum(first) / 6, abs=1e-5)


def test_the_measure_of_crows_pairs_scores_what_both_have_given_what_differs() -> None:
    model = tiny_bert()
    (found,) = score_pairs(pair_scorer(model, shared_only=True), [TEXTS])
    first, second = (by_hand(model, text, False) for text in TEXTS)
    # the cats ##at ran on the mat, the cat ran on the mat: five pieces are in both.
    assert found.first == pytest.approx(sum(first) - first[1] - first[2], abs=1e-4)
    assert found.second == pytest.approx(sum(second) - second[1], abs=1e-4)
    assert found.tokens == (5, 5)


def tiny_t5(*sentinels: str) -> LoadedModel:
    torch.manual_seed(0)
    tokenizer = word_tokenizer(extra_special_tokens=list(sentinels))
    config = T5Config(
        vocab_size=len(tokenizer),
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
    )
    return loaded(T5ForConditionalGeneration(config), Kind.SEQ2SEQ, tokenizer)


def written(model: LoadedModel, source: str, target: str) -> float:
    """Log-probability (nats) that the decoder writes ``target``."""
    ids, wanted = (model.tokenizer(text).input_ids for text in (source, target))
    with torch.no_grad():
        logits = model.model(
            input_ids=torch.tensor([ids]), decoder_input_ids=torch.tensor([[0, *wanted[:-1]]])
        ).logits[0]
    return float(torch.log_softmax(logits.double(), -1)[range(len(wanted)), wanted].sum())


def test_an_encoder_decoder_writes_the_stretch_that_differs() -> None:
    model = tiny_t5("<extra_id_0>", "<extra_id_1>")
    good, bad = "the keys to the cabinet are on the table", "the keys to the cabinet is on the table"
    (found,) = score_pairs(pair_scorer(model), [(good, bad)])
    source = "the keys to the cabinet <extra_id_0> on the table"
    # "is" is not in the vocabulary of the tests' tokenizer beside the words of its sentence.
    for score, verb in ((found.first, "are"), (found.second, "is")):
        assert score == pytest.approx(written(model, source, f"<extra_id_0> {verb}"), abs=1e-4)


def test_saliency_of_a_causal_pair_is_the_difference_of_two_attributions() -> None:
    model = tiny_causal()
    good, bad = f"{SHARED} are on the table", f"{SHARED} is on the table"
    found = explain(pair(good, bad), model)
    of_good, of_bad = (
        attribute(model, f"<s>{SHARED}", "input_x_gradient", target=text[len(SHARED) :])
        for text in (good, bad)
    )
    expected = (of_good.scores - of_bad.scores)[-5:]
    assert [word for word, _ in found.saliency.scores] == SHARED.split()
    assert [score for _, score in found.saliency.scores] == pytest.approx(expected.tolist(), abs=1e-5)
    assert "tokens for (+) and against (-) the first" in found.summary
    assert found.to_dict()["saliency"]["method"] == "input_x_gradient"


def test_saliency_says_why_there_is_none() -> None:
    found = explain(pair("cats ran on the mat", "cat ran on the mat"), tiny_causal())
    assert found.saliency.reason == "the members share no word at the start"
    assert found.saliency.reason in found.summary


def test_saliency_of_a_masked_pair_is_of_the_word_that_differs() -> None:
    found = explain(pair("the cat ran", "the cats ran"), tiny_bert())
    assert [word for word, _ in found.saliency.scores] == ["the", "ran"]
    other = explain(pair("the cat ran", "a cats ran"), tiny_bert())
    assert other.saliency.reason == "the members differ in more than one word"


def test_saliency_of_a_classifier_is_the_difference_on_common_words() -> None:
    torch.manual_seed(0)
    sizes = {"num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 16, "intermediate_size": 16}
    config = BertConfig(**SIZES, **sizes, initializer_range=0.5)
    model = loaded(BertForSequenceClassification(config), Kind.CLASSIFIER, framed_tokenizer())
    good, bad = "the cat sat", "the dogs sat"
    found = explain(pair(good, bad), model)
    with torch.inference_mode():
        chosen = int(model.model(**model.tokenizer(good, return_tensors="pt")).logits.argmax())
    first, second = (attribute(model, text, "input_x_gradient", target=chosen) for text in (good, bad))
    assert [word for word, _ in found.saliency.scores] == ["the", "sat"]
    expected = [first.scores[i] - second.scores[i] for i in (1, 3)]
    assert [score for _, score in found.saliency.scores] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("make", [tiny_bert, tiny_causal], ids=["masked", "causal"])
@pytest.mark.parametrize("crows", [False, True], ids=["pairs", "crows"])
def test_a_pair_that_is_too_long_is_recorded_as_not_scored_and_the_run_goes_on(
    make: Callable[[], LoadedModel], crows: bool, tmp_path: Path
) -> None:
    """The other pair has the score that it has in a run without the long one."""
    model = make()
    long = " ".join(["cat"] * (model.max_length + 1))
    texts = [TEXTS, (long, TEXTS[1])]
    if crows:
        rows = ["sent_more,sent_less,stereo_antistereo,bias_type", *(f"{a},{b},stereo,age" for a, b in texts)]
        (tmp_path / "crows_pairs_anonymized.csv").write_text("\n".join(rows))
        challenge: QuestionSet = CROWS_PAIRS
    else:
        items = [MinimalPair(str(n), "x", "paradigm", "phenomenon", *both) for n, both in enumerate(texts)]
        challenge = PairSet("x", "", lambda _: items)
    place = tmp_path if crows else None
    run = check(model, challenge, data_dir=place, out=tmp_path / "run", doctor=False)
    found = run.examples().sort_values("id").to_dict("records")
    (alone,) = score_pairs(pair_scorer(model, shared_only=crows), [TEXTS])
    assert found[0]["margin"] == pytest.approx(-alone.margin if crows else alone.margin, abs=1e-5)
    assert (found[0]["not_scored"], found[1]["correct"]) == ("", None)
    assert f"reads at most {model.max_length}" in found[1]["not_scored"]
    assert run.notes["not_scored"].startswith("1 of 2 pairs too long for the model and not scored: ")
    assert {estimate.n for group in run.results.values() for estimate in group.values()} == {1}
    evaluated = evaluate(model, tasks=[challenge], data_dir=place, out=tmp_path / "task", doctor=False)
    assert evaluated.results == run.results
    assert evaluated.notes["sets"] == {challenge.name: run.notes}


def test_runs_with_pairs_that_were_not_scored_are_compared_and_reported_on_the_others(tmp_path: Path) -> None:
    model = tiny_causal()
    long = " ".join(["cat"] * (model.max_length + 1))
    texts = [TEXTS, (long, TEXTS[1]), ("the keys", "the cabinet"), ("a cat ran", "a cats ran")]
    items = [MinimalPair(str(n), "x", "paradigm", "phenomenon", *both) for n, both in enumerate(texts)]
    challenge = PairSet("x", "", lambda _: items)
    runs = [
        check(model, challenge, convention=name, out=tmp_path, doctor=False)
        for name in ("workbench", "lm-eval")
    ]
    (found,) = [c for c in compare(runs) if c.metric == "accuracy" and c.task == "x"]
    correct = [run.examples().set_index("id")["correct"].drop("1").astype(float).mean() for run in runs]
    assert found.n == 3
    assert found.difference.value == pytest.approx(correct[0] - correct[1])
    assert failing(runs[0])["id"].tolist() == [
        row["id"] for row in runs[0].examples().to_dict("records") if row["correct"] is False
    ]
    assert "not_scored" in render_report(runs[0])
