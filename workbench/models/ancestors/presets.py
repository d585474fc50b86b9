"""Configurations of the ancestors, in the sizes of their papers and in small ones."""

from __future__ import annotations

from typing import Any

from workbench.models.ancestors.recurrent_configuration import (
    AlignmentConfig,
    CellConfig,
    ReadoutConfig,
    RecurrentConfig,
    RecurrentDepthConfig,
    TokenVectorConfig,
)

__all__ = ["bahdanau", "luong"]

_IDS: dict[str, Any] = {
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}


def bahdanau(
    vocabulary: int = 30000, width: int = 1000, tokens: int = 620, readout: int = 500, dropout: float = 0.0
) -> RecurrentConfig:
    """RNNsearch: a bidirectional GRU, additive alignment of the previous state, maxout; appendix B of the paper."""
    return RecurrentConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        embeddings=TokenVectorConfig(size=tokens),
        cell=CellConfig(kind="gru", bidirectional=True),
        attention=AlignmentConfig(score="additive", query="previous", size=width),
        depth=RecurrentDepthConfig(layers=1, decoder_layers=1),
        readout=ReadoutConfig(kind="maxout", size=readout, sees_token=True),
        dropout=dropout,
        initializer_range=0.1,
        **_IDS,
    )


def luong(
    vocabulary: int = 50000, width: int = 1000, layers: int = 4, dropout: float = 0.2
) -> RecurrentConfig:
    """Stacked LSTMs, ``general`` scores of the current state, input feeding; section 4.1 of the paper."""
    return RecurrentConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        embeddings=TokenVectorConfig(size=width),
        cell=CellConfig(kind="lstm", bidirectional=False),
        attention=AlignmentConfig(score="general", query="current", input_feeding=True),
        depth=RecurrentDepthConfig(layers=layers, decoder_layers=layers),
        readout=ReadoutConfig(kind="tanh", size=width, sees_token=False),
        dropout=dropout,
        initializer_range=0.1,
        **_IDS,
    )
