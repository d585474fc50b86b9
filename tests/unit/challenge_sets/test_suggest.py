"""A random BERT of one layer whose output bias makes the expected answer certain."""

import pytest
import torch
from transformers import BertConfig, BertForMaskedLM, BertTokenizer

from challenge_sets.templates import Template, TemplateError
from workbench.errors import ModelError
from workbench.models import Kind, LoadedModel

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "ana",
    "bo",
    "is",
    "a",
    "good",
    "bad",
    "person",
    ".",
    "##ly",
]


def _model(kind=Kind.MASKED):
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=32,
    )
    network = BertForMaskedLM(config).eval()
    tokenizer = BertTokenizer(vocab={word: index for index, word in enumerate(WORDS)})
    return LoadedModel(
        model=network,
        tokenizer=tokenizer,
        kind=kind,
        name="tiny",
        revision=None,
        dtype=torch.float32,
        device=torch.device("cpu"),
        implementation="hf",
    )


def _favour(model, **bias):
    with torch.no_grad():
        for word, value in bias.items():
            model.model.cls.predictions.bias[WORDS.index(word)] = value


def test_words_come_in_the_order_of_the_output_bias():
    model = _model()
    _favour(model, good=40.0, bad=20.0)
    found = Template("{who} is a {mask} person .", who=["ana", "bo"]).suggest(model, "{mask}", count=2)
    assert [suggestion.text for suggestion in found] == ["good", "bad"]
    assert found[0].log_probability == pytest.approx(0.0, abs=1e-6)
    assert found[0].log_probability - found[1].log_probability == pytest.approx(20.0, abs=1.0)


def test_score_is_the_mean_log_probability_over_contexts():
    model = _model()
    found = Template("{who} is a {mask} person .", who=["ana", "bo"]).suggest(model, count=8)
    expected = {}
    for who in ("ana", "bo"):
        ids = model.tokenizer(f"{who} is a [MASK] person .", return_tensors="pt")["input_ids"]
        with torch.no_grad():
            logits = model.model(ids).logits[0, 4].double()  # [CLS] who is a [MASK]
        for index, value in enumerate(torch.log_softmax(logits, -1).tolist()):
            expected[WORDS[index]] = expected.get(WORDS[index], 0.0) + value / 2
    for suggestion in found:
        name = suggestion.text if suggestion.text in expected else f"##{suggestion.text}"
        assert suggestion.log_probability == pytest.approx(expected[name], abs=1e-5)
    scores = [suggestion.log_probability for suggestion in found]
    assert scores == sorted(scores, reverse=True)


def test_another_slot_can_be_asked_about_and_special_tokens_never_come():
    model = _model()
    found = Template("{who} is a {adj} person .", who=["ana"], adj=["good"]).suggest(model, "{adj}", count=14)
    texts = {suggestion.text for suggestion in found if suggestion.log_probability > float("-inf")}
    assert len(texts) == 9
    assert not texts & {"[CLS]", "[MASK]", "[PAD]", "[SEP]", "[UNK]"}


def test_words_of_two_pieces():
    model = _model()
    _favour(model, **{"good": 30.0, "##ly": 29.0})
    found = Template("{who} is {mask} .", who=["ana"]).suggest(model, pieces=2, count=3)
    assert "goodly" in [suggestion.text for suggestion in found]


def test_bad_input():
    template = Template("{who} is {mask} .", who=["ana"])
    with pytest.raises(ModelError, match="suggest needs a masked model"):
        template.suggest(_model(Kind.CAUSAL))
    with pytest.raises(TemplateError, match=r"has no slot '{adj}'; slots: who, mask"):
        template.suggest(_model(), "{adj}")
    with pytest.raises(TemplateError, match="must be 1 or more, got 0, 20"):
        template.suggest(_model(), count=0)
