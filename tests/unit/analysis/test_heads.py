"""Corpus statistics: exact on a model made by hand, and equal to plain NumPy on random ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.unit.analysis import naive
from tests.unit.trace import tiny
from workbench.analysis._head_sums import count_words, token_classes
from workbench.analysis.heads import head_statistics
from workbench.errors import DataError
from workbench.text import align
from workbench.trace import trace

TEXTS = ["the cat sat on the mat .", "a dog ran", "the old house and the small red cat , saw a dog", "dog"]


def test_statistics_of_a_model_made_by_hand():
    """Head 0 attends to the previous token and head 1 to [SEP], whatever the text."""
    found = head_statistics(tiny.pointing_bert(), TEXTS)
    assert found["previous token"].at(layer=0, head=0) == pytest.approx(1.0, abs=1e-5)
    assert found["[SEP]"].at(layer=0, head=1) == pytest.approx(1.0, abs=1e-5)
    assert found["confidence"].at(layer=0, head=1) == pytest.approx(1.0, abs=1e-5)
    assert found["entropy"].at(layer=0, head=1) == pytest.approx(0.0, abs=1e-4)
    assert found["breadth"].at(layer=0, head=1) == pytest.approx(0.0, abs=1e-4)
    # [SEP] at the end of T tokens is (T - 1) / 2 away on average; T is 9, 5, 14 and 3.
    lengths = np.array([9, 5, 14, 3])
    expected = (lengths * (lengths - 1) / 2).sum() / lengths.sum()
    assert found["distance"].at(layer=0, head=1) == pytest.approx(expected, abs=1e-4)
    assert found["previous token"].standard_error[0, 0] == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize("build", [tiny.bert, tiny.llama, tiny.deberta, tiny.albert])
def test_equal_to_plain_numpy(build):
    model = build()
    found = head_statistics(model, TEXTS)
    records = trace(model, TEXTS)
    counts = count_words(TEXTS)
    classes = [token_classes(r.alignment, model.tokenizer, counts, 1) for r in records]
    values, errors = naive.statistics([r.attention for r in records], classes, causal=build is tiny.llama)
    names = [
        "entropy", "breadth", "confidence", "distance", "previous token", "next token", "same token",
        "first token", "[CLS]", "[SEP]", "punctuation", "rare words",
    ]  # fmt: skip
    for i, name in enumerate(names):
        if name in found.statistics:
            np.testing.assert_allclose(found[name].values, values[..., i], atol=1e-5, err_msg=name)
            np.testing.assert_allclose(found[name].standard_error, errors[..., i], atol=1e-5, err_msg=name)
    missing = {"[CLS]", "[SEP]", "next token"} if build is tiny.llama else set()
    assert set(names) - set(found.statistics) == missing


def test_uniform_baseline():
    """With T visible keys uniform attention has entropy ln T; one text of 9 tokens with 2 marks of 9."""
    found = head_statistics(tiny.bert(), ["the cat sat , the mat ."])
    assert found.uniform["entropy"] == pytest.approx([np.log(9)] * 3, abs=1e-6)
    assert found.uniform["breadth"] == pytest.approx([1.0] * 3, abs=1e-6)
    assert found.uniform["punctuation"] == pytest.approx([2 / 9] * 3, abs=1e-6)
    # A decoder of 3 tokens: entropies 0, ln 2, ln 3.
    causal = head_statistics(tiny.llama(), ["the cat sat"])
    assert causal.uniform["entropy"] == pytest.approx([(np.log(2) + np.log(3)) / 3] * 3, abs=1e-6)


def test_local_layers_are_measured_by_the_keys_they_see():
    """A head whose queries are zero attends to all visible keys alike, so its breadth is 1 in a window too."""
    model = tiny.gemma2()
    with torch.no_grad():
        for layer in model.model.model.layers:
            layer.self_attn.q_proj.weight.zero_()
    text = "the old house and the small red cat , saw a dog"  # 12 tokens
    found = head_statistics(model, [text])
    np.testing.assert_allclose(found["breadth"].values, 1, atol=1e-6)
    visible = np.arange(1, 13)
    local, whole = np.log(np.minimum(visible, 4)).mean(), np.log(visible).mean()
    assert found.uniform["entropy"] == pytest.approx([local, whole, local], abs=1e-6)
    assert found["entropy"].values[:, 0] == pytest.approx([local, whole, local], abs=1e-6)
    assert f"uniform attention gives {local:.4g} to {whole:.4g}, by layer" in found["entropy"].note
    # the first token is in the window of tokens 1 to 3 alone, which give it 1/2, 1/3 and 1/4
    assert found.uniform["first token"][0] == pytest.approx((1 / 2 + 1 / 3 + 1 / 4) / 11, abs=1e-6)


@pytest.mark.parametrize(("build", "windows"), [(tiny.gemma2, [4, None, 4]), (tiny.gpt_oss, [4, None])])
def test_windows_and_sinks_equal_plain_numpy_on_the_models_own_attention(build, windows):
    """Entropy, breadth and distance are of the weights divided by their sum; the rest are of the weights."""
    model = build()
    found = head_statistics(model, TEXTS)
    counts = count_words(TEXTS)
    own, classes = [], []
    model.model.set_attn_implementation("eager")
    for text in TEXTS:
        alignment = align(text, model.tokenizer)
        with torch.no_grad():
            output = model.model(torch.tensor([alignment.ids]), output_attentions=True)
        own.append(torch.cat(output.attentions).numpy())
        classes.append(token_classes(alignment, model.tokenizer, counts, 1))
    weights, _ = naive.statistics(own, classes, True, windows)
    shares, _ = naive.statistics([a / a.sum(-1, keepdims=True) for a in own], classes, True, windows)
    for i, name in enumerate(["entropy", "breadth", "confidence", "distance", "previous token"]):
        expected = shares if name in ("entropy", "breadth", "distance") else weights
        np.testing.assert_allclose(found[name].values, expected[..., i], atol=1e-5, err_msg=name)
    if build is tiny.gemma2:
        assert "sink logit" not in found.statistics
        return
    queries = sum(a.shape[2] for a in own)
    lost = sum((1 - a.sum(-1)).sum(-1) for a in own) / queries
    assert lost.max() > 0.1
    np.testing.assert_allclose(found["sink logit"].values, lost, atol=1e-5)


def test_results_do_not_depend_on_batches(monkeypatch):
    from workbench.analysis import heads

    together = head_statistics(tiny.bert(), TEXTS)
    monkeypatch.setattr(heads, "_CHUNK", 1)
    singly = head_statistics(tiny.bert(), TEXTS)
    for name, statistic in together.statistics.items():
        np.testing.assert_allclose(singly[name].values, statistic.values, atol=1e-6)


def test_token_classes():
    """'mat' and 'sat' occur once, 'the' twice; the mark is punctuation and never rare."""
    tokenizer = tiny.tokenizer(special=True)
    alignment = align("the sat the mat.", tokenizer)
    classes = token_classes(alignment, tokenizer, count_words([alignment.text]), rare_count=1)
    assert alignment.tokens == ("[CLS]", "the", "sat", "the", "mat", ".", "[SEP]")
    assert classes[:, 0].tolist() == [1, 0, 0, 0, 0, 0, 0]
    assert classes[:, 1].tolist() == [0, 0, 0, 0, 0, 0, 1]
    assert classes[:, 2].tolist() == [0, 0, 0, 0, 0, 1, 0]
    assert classes[:, 3].tolist() == [0, 0, 1, 0, 1, 0, 0]


def test_frame_and_errors():
    found = head_statistics(tiny.bert(), TEXTS)
    frame = found.to_frame()
    assert len(frame) == 12
    assert {"layer", "head", "entropy", "entropy (standard error)"} <= set(frame.columns)
    assert (found.texts, found.tokens, found.truncated) == (4, 31, 0)
    with pytest.raises(DataError, match="no statistic 'entrop'"):
        found["entrop"]
    with pytest.raises(DataError, match="no texts"):
        head_statistics(tiny.bert(), [])
