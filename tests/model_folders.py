"""Folders of tiny models with random weights, as a user's own model would lie on disk."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
from tokenizers.processors import TemplateProcessing
from transformers import BartConfig, BartForConditionalGeneration, BertConfig, BertModel

from tests.unit.tiny import WORDS, tiny_causal, word_tokenizer
from workbench.models.configuration import EncoderConfig
from workbench.models.encoder import TransformerEncoder
from workbench.models.parts import AttentionConfig, DepthConfig, FeedForwardConfig

__all__ = ["save_adapter", "save_bart", "save_bert", "save_encoder", "save_llama"]

SIZES = {"vocab_size": 4 + len(WORDS), "max_position_embeddings": 64}


def framed_tokenizer() -> Any:
    """The word tokenizer with <s> and </s> around a text, and </s> between the texts of a pair."""
    tokenizer = word_tokenizer(cls_token="<s>", sep_token="</s>")
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B:1 </s>:1", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    return tokenizer


def save(model: Any, tokenizer: Any, folder: Path) -> Path:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def save_encoder(folder: Path, layers: int = 1) -> Path:
    """A built-in encoder, two heads."""
    torch.manual_seed(0)
    config = EncoderConfig(
        vocab_size=4 + len(WORDS),
        hidden_size=16,
        attention=AttentionConfig(heads=2),
        feed_forward=FeedForwardConfig(size=32),
        depth=DepthConfig(layers=layers),
        initializer_range=0.2,
        pad_token_id=0,
    )
    return save(TransformerEncoder(config), word_tokenizer(), folder)


def save_bert(folder: Path) -> Path:
    """Two layers, four heads."""
    torch.manual_seed(0)
    heads = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32, "intermediate_size": 64}
    return save(BertModel(BertConfig(**SIZES, **heads, initializer_range=0.3)), framed_tokenizer(), folder)


def save_bart(folder: Path) -> Path:
    """An encoder of two layers and a decoder of two, four heads each."""
    torch.manual_seed(0)
    layers = {
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
    }
    special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
    config = BartConfig(
        **SIZES,
        **layers,
        **special,
        d_model=32,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        init_std=0.3,
        forced_eos_token_id=2,
    )
    return save(BartForConditionalGeneration(config), framed_tokenizer(), folder)


def save_llama(folder: Path, positions: int = 64) -> Path:
    """Two layers, four query heads over two key heads; reads ``positions`` tokens."""
    model = tiny_causal(positions)
    return save(model.model, model.tokenizer, folder)


def save_adapter(base: Any, folder: Path, config: Any = None, **lora: Any) -> Any:
    """An adapter around ``base``, LoRA unless ``config`` says otherwise, its weights random, saved as PEFT does.

    Returns the adapted model, so that what is loaded can be compared with it.
    """
    import peft

    with warnings.catch_warnings():  # peft asks transformers by names that are on their way out
        warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
        warnings.filterwarnings("ignore", message="Setting `save_embedding_layers` to `True`")
        adapted = peft.get_peft_model(base, config or peft.LoraConfig(**lora))
        torch.manual_seed(1)
        for weight in adapted.parameters():
            if weight.requires_grad:
                torch.nn.init.normal_(weight, std=0.3)
        adapted.save_pretrained(folder)
    return adapted.eval()
