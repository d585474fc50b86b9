"""Configurations of published transformers, made from their papers and released settings."""

from __future__ import annotations

from dataclasses import replace

from workbench.models.configuration import (
    DecoderConfig,
    EncoderConfig,
    EncoderDecoderConfig,
    TransformerConfig,
)
from workbench.models.parts import (
    AttentionConfig,
    DepthConfig,
    EmbeddingConfig,
    FeedForwardConfig,
    HeadConfig,
    NormConfig,
    PositionConfig,
)

__all__ = [
    "albert",
    "bart",
    "bert",
    "bloom",
    "byt5",
    "distilbert",
    "electra",
    "gpt",
    "llama",
    "roberta",
    "t5",
    "transformer",
]


def transformer() -> TransformerConfig:
    """The encoder-decoder of Vaswani et al. 2017, base size."""
    return EncoderDecoderConfig(
        vocab_size=37000,
        hidden_size=512,
        attention=AttentionConfig(heads=8),
        positions=PositionConfig(kind="sinusoidal"),
        norm=NormConfig(placement="post", final=False),
        feed_forward=FeedForwardConfig(activation="relu", size=2048),
        embeddings=EmbeddingConfig(scaled=True, dropout=0.1),
        depth=DepthConfig(layers=6, decoder_layers=6),
        head=HeadConfig(pooler=None),
        dropout=0.1,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )


def bert(layers: int, width: int, heads: int) -> TransformerConfig:
    """An encoder as in Devlin et al. 2019."""
    return EncoderConfig(
        vocab_size=30522,
        hidden_size=width,
        attention=AttentionConfig(heads=heads, dropout=0.1),
        positions=PositionConfig(kind="learned", max_length=512),
        norm=NormConfig(placement="post", epsilon=1e-12, embeddings=True, final=False),
        feed_forward=FeedForwardConfig(activation="gelu", size=4 * width),
        embeddings=EmbeddingConfig(segments=2, dropout=0.1, frozen_padding=True),
        depth=DepthConfig(layers=layers),
        head=HeadConfig(transform="gelu", bias=True),
        dropout=0.1,
        pad_token_id=0,
    )


def roberta() -> TransformerConfig:
    """RoBERTa, base size; Liu et al. 2019."""
    config = bert(12, 768, 12)
    config.vocab_size, config.pad_token_id, config.bos_token_id, config.eos_token_id = 50265, 1, 0, 2
    config.positions = replace(config.positions, offset=2, skip_padding=True)
    config.embeddings = replace(config.embeddings, segments=1)
    config.norm = replace(config.norm, epsilon=1e-5)
    return config


def albert() -> TransformerConfig:
    """ALBERT, base size, version 2; Lan et al. 2020."""
    config = bert(12, 768, 12)
    config.vocab_size, config.dropout, config.classifier_dropout = 30000, 0.0, 0.1
    config.attention = replace(config.attention, dropout=0.0)
    config.feed_forward = replace(config.feed_forward, activation="gelu_tanh")
    config.embeddings = replace(config.embeddings, size=128, dropout=0.0)
    config.depth = DepthConfig(layers=12, groups=1)
    config.head = replace(config.head, transform="gelu_tanh")
    return config


def distilbert() -> TransformerConfig:
    """DistilBERT; Sanh et al. 2019."""
    config = bert(6, 768, 12)
    config.embeddings = replace(config.embeddings, segments=0)
    config.head = replace(config.head, pooler=None)
    return config


def electra(width: int, heads: int) -> TransformerConfig:
    """An encoder as in Clark et al. 2020."""
    config = bert(12, width, heads)
    config.embeddings = replace(config.embeddings, size=128)
    config.head = replace(config.head, pooler=None)
    return config


def gpt(layers: int, width: int, heads: int, *, is_first: bool = False) -> TransformerConfig:
    """A decoder as in Radford et al. 2019, or the first of 2018."""
    return DecoderConfig(
        vocab_size=40478 if is_first else 50257,
        hidden_size=width,
        attention=AttentionConfig(heads=heads, dropout=0.1),
        positions=PositionConfig(kind="learned", max_length=512 if is_first else 1024),
        norm=NormConfig(placement="post" if is_first else "pre", final=not is_first),
        feed_forward=FeedForwardConfig(activation="gelu_tanh", size=4 * width),
        embeddings=EmbeddingConfig(dropout=0.1),
        depth=DepthConfig(layers=layers),
        dropout=0.1,
        bos_token_id=None if is_first else 50256,
        eos_token_id=None if is_first else 50256,
    )


def t5(layers: int, width: int, heads: int, size: int) -> TransformerConfig:
    """An encoder-decoder as in Raffel et al. 2020."""
    return EncoderDecoderConfig(
        vocab_size=32128,
        hidden_size=width,
        attention=AttentionConfig(
            heads=heads, head_size=64, bias=False, output_bias=False, scaling=1.0, dropout=0.1
        ),
        positions=PositionConfig(kind="relative"),
        norm=NormConfig(kind="rms_norm", placement="pre", epsilon=1e-6),
        feed_forward=FeedForwardConfig(activation="relu", size=size, bias=False, dropout=0.1),
        embeddings=EmbeddingConfig(dropout=0.1),
        depth=DepthConfig(layers=layers, decoder_layers=layers),
        head=HeadConfig(scaled=True, pooler=None),
        dropout=0.1,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
    )


def byt5() -> TransformerConfig:
    """ByT5, small; Xue et al. 2022."""
    config = t5(12, 1472, 6, 3584)
    config.vocab_size, config.tie_word_embeddings = 384, False
    config.feed_forward = replace(config.feed_forward, activation="geglu_tanh")
    config.depth = DepthConfig(layers=12, decoder_layers=4)
    config.head = replace(config.head, scaled=False)
    return config


def bart() -> TransformerConfig:
    """BART, base size; Lewis et al. 2020."""
    return EncoderDecoderConfig(
        vocab_size=50265,
        hidden_size=768,
        attention=AttentionConfig(heads=12),
        positions=PositionConfig(kind="learned", max_length=1024, offset=2),
        norm=NormConfig(placement="post", embeddings=True, final=False),
        feed_forward=FeedForwardConfig(activation="gelu", size=3072),
        embeddings=EmbeddingConfig(dropout=0.1, frozen_padding=True),
        depth=DepthConfig(layers=6, decoder_layers=6),
        head=HeadConfig(pooler=None),
        dropout=0.1,
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=2,
        decoder_start_token_id=2,
    )


def llama(*, key_value_heads: int, window: int | None = None) -> TransformerConfig:
    """A small decoder as in Touvron et al. 2023; with a window, as in Jiang et al. 2023."""
    return DecoderConfig(
        vocab_size=32000,
        hidden_size=256,
        attention=AttentionConfig(
            heads=8, key_value_heads=key_value_heads, bias=False, output_bias=False, window=window
        ),
        positions=PositionConfig(kind="rotary", max_length=2048),
        norm=NormConfig(kind="rms_norm", placement="pre", epsilon=1e-5),
        feed_forward=FeedForwardConfig(activation="swiglu", size=688, bias=False),
        depth=DepthConfig(layers=4),
        bos_token_id=1,
        eos_token_id=2,
    )


def bloom() -> TransformerConfig:
    """A small decoder as in BigScience 2022."""
    return DecoderConfig(
        vocab_size=32000,
        hidden_size=256,
        attention=AttentionConfig(heads=8),
        positions=PositionConfig(kind="alibi", max_length=2048),
        norm=NormConfig(placement="pre", embeddings=True),
        feed_forward=FeedForwardConfig(activation="gelu_tanh", size=1024),
        depth=DepthConfig(layers=4),
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=3,
    )
