"""Models for saliency tests: two whose answers are worked out by hand, and one trained on a trigger word."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    GPT2Config,
    GPT2ForSequenceClassification,
    PretrainedConfig,
    PreTrainedModel,
)
from transformers.modeling_outputs import SequenceClassifierOutput

from tests.model_folders import SIZES, framed_tokenizer
from tests.unit.tiny import WORDS, loaded, word_tokenizer
from workbench.models import Kind, LoadedModel

WIDTH = 4
TRIGGER = "keys"


class ToyConfig(PretrainedConfig):
    model_type = "toy_for_saliency_tests"


class BagOfWords(PreTrainedModel):
    """logit = sum over positions of e_t . w, but nothing of position 2: a token there is not used."""

    config_class = ToyConfig

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.embedding = nn.Embedding(4 + len(WORDS), WIDTH)
        self.read = nn.Linear(WIDTH, 2)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.embedding

    def summed(self, embeds: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        used = mask.to(embeds).clone()
        used[:, 2:3] = 0
        return (embeds * used[..., None]).sum(1)

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        output_attentions: bool = False,
    ) -> SequenceClassifierOutput:
        embeds = self.embedding(input_ids) if inputs_embeds is None else inputs_embeds
        assert attention_mask is not None
        return SequenceClassifierOutput(logits=self.head(self.summed(embeds, attention_mask)))

    def head(self, summed: torch.Tensor) -> torch.Tensor:
        return self.read(summed)


class TwoLayers(BagOfWords):
    """logit = relu(sum e_t W1 + b1) w2 + b2, again without position 2."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.hidden = nn.Linear(WIDTH, 3)
        self.relu = nn.ReLU()
        self.read = nn.Linear(3, 2)

    def head(self, summed: torch.Tensor) -> torch.Tensor:
        return self.read(self.relu(self.hidden(summed)))


def toy(kind: type[BagOfWords]) -> LoadedModel:
    """With weights drawn from a fixed seed."""
    torch.manual_seed(3)
    model = kind(ToyConfig(num_labels=2))
    for weight in model.parameters():
        nn.init.normal_(weight)
    return loaded(model, Kind.CLASSIFIER, word_tokenizer())


def _bert(**changes: Any) -> BertConfig:
    sizes = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32, "intermediate_size": 64}
    return BertConfig(**SIZES, **sizes, initializer_range=0.3, pad_token_id=0, **changes)


def _plain_bert() -> BertConfig:
    sizes = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32, "intermediate_size": 64}
    return BertConfig(**SIZES, **sizes, num_labels=2, pad_token_id=0)


@cache
def tiny_classifier() -> LoadedModel:
    """A BERT classifier with random weights; <s> and </s> around a text."""
    torch.manual_seed(0)
    return loaded(BertForSequenceClassification(_bert(num_labels=2)), Kind.CLASSIFIER, framed_tokenizer())


@cache
def tiny_masked() -> LoadedModel:
    """A BERT with a masked-LM head and random weights; the mask is spelled <unk> here."""
    torch.manual_seed(0)
    tokenizer = framed_tokenizer()
    tokenizer.mask_token = "<unk>"
    return loaded(BertForMaskedLM(_bert()), Kind.MASKED, tokenizer)


@cache
def tiny_decoder_classifier() -> LoadedModel:
    """A GPT-2 that classifies by its last token."""
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=4 + len(WORDS), n_embd=32, n_layer=2, n_head=4, n_positions=64, initializer_range=0.3
    )
    config.pad_token_id = 0
    return loaded(GPT2ForSequenceClassification(config), Kind.CLASSIFIER, word_tokenizer())


def trigger_texts(count: int, seed: int) -> tuple[list[str], list[int]]:
    """Texts of 5 to 9 random words; half of them, those of class 1, hold the trigger once."""
    draw = np.random.default_rng(seed)
    others = [w for w in WORDS if w != TRIGGER]
    texts, labels = [], []
    for number in range(count):
        words = list(draw.choice(others, size=draw.integers(5, 10)))
        if number % 2:
            words[draw.integers(len(words))] = TRIGGER
        texts.append(" ".join(words))
        labels.append(number % 2)
    return texts, labels


@cache
def trigger_model(steps: int = 150) -> LoadedModel:
    """The tiny classifier trained until one word decides; a few seconds on a processor.

    It ends saturated: at the text itself more of the trigger would change nothing, only its absence would.
    """
    torch.manual_seed(1)
    model = BertForSequenceClassification(_plain_bert())
    return loaded(_learned(model, framed_tokenizer(), steps, 3e-3), Kind.CLASSIFIER, framed_tokenizer())


@cache
def trigger_reader(steps: int = 300) -> LoadedModel:
    """The same, but the first layer's attention is even and moves nothing, and the labels are smoothed to 0.85.

    So the trigger stays where it stands until the last layer reads it, and the model does not end saturated:
    every method has a right answer here, those too that score positions inside, or gradients at the text.
    """
    torch.manual_seed(1)
    model = BertForSequenceClassification(_plain_bert())
    attention = model.bert.encoder.layer[0].attention
    for part in (attention.self.query, attention.self.key, attention.output.dense):
        for weight in part.parameters():
            nn.init.zeros_(weight)
            weight.requires_grad_(False)
    learned = _learned(model, framed_tokenizer(), steps, 3e-3, smoothing=0.3)
    return loaded(learned.requires_grad_(True), Kind.CLASSIFIER, framed_tokenizer())


@cache
def trigger_toy(steps: int = 100) -> LoadedModel:
    """The two-layer toy trained on the same texts: neither layer norm nor softmax on the way to its logits."""
    torch.manual_seed(1)
    tokenizer = word_tokenizer()
    tokenizer.padding_side = "right"
    model = _learned(TwoLayers(ToyConfig(num_labels=2)), tokenizer, steps, 3e-2)
    return loaded(model, Kind.CLASSIFIER, tokenizer)


def _learned(model: Any, tokenizer: Any, steps: int, rate: float, smoothing: float = 0.0) -> Any:
    texts, labels = trigger_texts(steps * 32, seed=0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    model.train()
    for start in range(0, len(texts), 32):
        inputs = tokenizer(texts[start : start + 32], return_tensors="pt", padding=True)
        logits = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]).logits
        target = torch.tensor(labels[start : start + 32])
        loss = nn.functional.cross_entropy(logits, target, label_smoothing=smoothing)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model
