"""What classifiers of texts read: the equations, padding, saving, and heads around models of transformers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, BartConfig, BertConfig, GPT2Config

import workbench
from tests.unit.models.tiny import decoder, encoder, encoder_decoder
from tests.unit.tiny import loaded, word_tokenizer
from workbench.analysis.pooling import pooling_weights
from workbench.errors import ConfigError, ModelError
from workbench.models import Kind
from workbench.models.auto import AUTO_CLASSES
from workbench.models.parts import HeadConfig
from workbench.models.pooled import PooledConfig, PooledForSequenceClassification
from workbench.nn import AttentionPooling, LabelwiseLinear
from workbench.training.finetuning import FineSettings, finetune, load_task

SHAPES = {"encoder": encoder, "decoder": decoder, "encoder-decoder": encoder_decoder}
POOLINGS = [("mean", None), ("last", None), ("attention", None), ("attention", 2)]
IDS = torch.arange(3, 13).view(2, 5)


def built_in(shape: str, pooling: str | None, aspects: int | None) -> Any:
    torch.manual_seed(0)
    config = SHAPES[shape]()
    config.head, config.num_labels = replace(config.head, pooling=pooling, aspects=aspects), 3
    return AUTO_CLASSES[type(config)]["AutoModelForSequenceClassification"](config).eval()


def around(body: Any, pooling: str = "attention", aspects: int | None = None) -> Any:
    torch.manual_seed(0)
    config = PooledConfig(text_config=body, pooling=pooling, aspects=aspects, num_labels=3)
    return PooledForSequenceClassification(config).eval()


def bert() -> BertConfig:
    return BertConfig(
        vocab_size=40,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=16,
        pad_token_id=0,
    )


def gpt2() -> GPT2Config:
    return GPT2Config(vocab_size=40, n_embd=16, n_layer=2, n_head=2, n_positions=16, pad_token_id=0)


def test_attention_pooling_is_equations_5_to_7() -> None:
    torch.manual_seed(0)
    layer, hidden = AttentionPooling(4, 2), torch.randn(1, 3, 4)
    w, b, q = (p.detach().double().numpy() for p in layer.parameters())
    states = hidden[0].double().numpy()
    for aspect in range(2):
        scores = [float(np.tanh(w @ state + b) @ q[aspect]) for state in states]
        shares = np.exp(scores) / np.exp(scores).sum()
        vectors, weights = layer(hidden)
        np.testing.assert_allclose(weights[0, aspect].detach(), shares, rtol=1e-5)
        expected = sum(share * state for share, state in zip(shares, states, strict=True))
        np.testing.assert_allclose(vectors[0, aspect].detach(), expected, rtol=1e-5)


def test_a_label_is_scored_on_its_own_vector() -> None:
    torch.manual_seed(0)
    layer, vectors = LabelwiseLinear(4, 3), torch.randn(2, 3, 4, requires_grad=True)
    scores = layer(vectors)
    for label in range(3):
        expected = vectors[:, label] @ layer.weight[label] + layer.bias[label]
        torch.testing.assert_close(scores[:, label], expected)
    (gradient,) = torch.autograd.grad(scores[:, 0].sum(), vectors)
    assert gradient[:, 1:].abs().max() == 0


@pytest.mark.parametrize(("pooling", "aspects"), POOLINGS)
@pytest.mark.parametrize("shape", SHAPES)
def test_padding_changes_nothing_and_what_is_saved_is_loaded(
    shape: str, pooling: str, aspects: int | None, tmp_path: Path
) -> None:
    model = built_in(shape, pooling, aspects)
    alone = model(IDS[:1], attention_mask=torch.ones(1, 5))
    ids = torch.cat((IDS, torch.full((2, 2), 39)), 1)
    mask = torch.tensor([[1] * 5 + [0] * 2, [1] * 7])
    together = model(ids, attention_mask=mask)
    torch.testing.assert_close(together.logits[:1], alone.logits, atol=1e-6, rtol=1e-5)
    if pooling == "attention":
        weights = together.pooling_weights
        assert weights.shape == (2, 3 if aspects is None else aspects, 7)
        assert weights[0, :, 5:].abs().max() == 0
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:2]))
    model.save_pretrained(tmp_path)
    again = AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    assert torch.equal(again(ids, attention_mask=mask).logits, together.logits)


@pytest.mark.parametrize(("pooling", "aspects"), POOLINGS)
@pytest.mark.parametrize("body", [bert, gpt2])
def test_a_head_around_a_model_of_transformers(
    body: Any, pooling: str, aspects: int | None, tmp_path: Path
) -> None:
    model = around(body(), pooling, aspects)
    alone = model(IDS[:1], attention_mask=torch.ones(1, 5))
    ids = torch.cat((IDS, torch.full((2, 2), 39)), 1)
    together = model(ids, attention_mask=torch.tensor([[1] * 5 + [0] * 2, [1] * 7]))
    torch.testing.assert_close(together.logits[:1], alone.logits, atol=1e-6, rtol=1e-5)
    model.save_pretrained(tmp_path)
    again = AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    assert type(again.model) is type(model.model)
    assert torch.equal(again(IDS[:1], attention_mask=torch.ones(1, 5)).logits, alone.logits)


def test_every_weight_is_trained() -> None:
    for shape in SHAPES:
        model = built_in(shape, "attention", None).train()
        model(IDS, labels=torch.tensor([0, 2])).loss.backward()
        assert all(p.grad is not None for p in model.parameters()), shape


def test_without_a_setting_nothing_changes() -> None:
    """The first state of an encoder through its pooler, the last of a decoder."""
    for shape, pooling in (("encoder", "first"), ("decoder", "last"), ("encoder-decoder", "last")):
        usual, named = built_in(shape, None, None), built_in(shape, pooling, None)
        assert list(usual.state_dict()) == list(named.state_dict())
        assert torch.equal(usual(IDS).logits, named(IDS).logits)
    model = built_in("encoder", None, None)
    assert torch.equal(model(IDS).logits, model.classifier(model.model(IDS).pooler_output))


def test_impossible_settings_are_one_line() -> None:
    with pytest.raises(
        ConfigError, match=r"head.pooling = 'max' is not allowed; allowed: first, last, mean, att"
    ):
        HeadConfig(pooling="max")
    with pytest.raises(
        ConfigError, match=r"head.aspects = 2 is not allowed; allowed: none without head.pooling"
    ):
        HeadConfig(pooling="mean", aspects=2)
    with pytest.raises(ConfigError, match=r"head.aspects = 0 is not allowed; allowed: 1 or more"):
        HeadConfig(pooling="attention", aspects=0)
    with pytest.raises(ConfigError, match="the first token of a decoder sees no other"):
        built_in("decoder", "first", None)
    with pytest.raises(ModelError, match="pooling over bart, an encoder-decoder"):
        around(BartConfig(d_model=16, encoder_layers=1, decoder_layers=1, vocab_size=40))


def test_weights_of_a_text_are_those_of_the_forward_pass() -> None:
    tokenizer = word_tokenizer()
    model = loaded(around(bert()), Kind.CLASSIFIER, tokenizer)
    found = pooling_weights(model, "the cat sat")
    assert found.axes == ("aspect", "token")
    assert found.labels["aspect"] == ("LABEL_0", "LABEL_1", "LABEL_2")
    assert found.labels["token"] == ("the", "cat", "sat")
    ids = torch.tensor([tokenizer("the cat sat").input_ids])
    hidden = model.model.model(ids).last_hidden_state
    _, expected = model.model.pooling(hidden)
    np.testing.assert_allclose(found.values, expected[0].detach(), atol=1e-6)
    with pytest.raises(ModelError, match="does not pool its tokens by attention"):
        pooling_weights(loaded(around(bert(), "mean"), Kind.CLASSIFIER, tokenizer), "the cat")


@pytest.mark.parametrize("method", ["full", "head", "lora", "adapter", "prompt"])
def test_finetuning_with_pooling(method: str, tmp_path: Path) -> None:
    """Around a model of transformers; a fresh query is trained by every method, and what is stored opens."""
    folder = tmp_path / "bert"
    torch.manual_seed(0)
    around(bert()).model.save_pretrained(folder)
    word_tokenizer().save_pretrained(folder)
    texts = tmp_path / "texts.csv"
    texts.write_text("text,label\n" + "the cat sat,cat\nthe key is on,key\n" * 10)
    settings = FineSettings(
        method=method,
        pooling="attention",
        epochs=2,
        batch_size=8,
        lr=0.02,
        virtual_tokens=2,
        precision="float32",
    )
    finetune(str(folder), load_task(str(texts)), tmp_path / "out", settings, device="cpu")
    model = workbench.load(str(tmp_path / "out"), device="cpu")
    assert model.kind is Kind.CLASSIFIER
    found = pooling_weights(model, "the cat sat")
    assert found.labels["aspect"] == ("cat", "key")
    assert np.ptp(found.values) > 1e-3


def test_pooling_goes_with_texts_only(tmp_path: Path) -> None:
    rows = load_task([{"tokens": ["the", "cat"], "labels": ["0", "1"]}] * 9, kind="tokens")
    with pytest.raises(
        ConfigError, match="pooling mean does not go with --kind tokens; allowed: class, number"
    ):
        finetune("novels-encoder", rows, tmp_path / "out", pooling="mean")
