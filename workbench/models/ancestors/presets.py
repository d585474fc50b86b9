"""Configurations of the ancestors, in the sizes of their papers and in small ones."""

from __future__ import annotations

from typing import Any

from workbench.models.ancestors.convolutional_configuration import (
    ConvolutionalConfig,
    ConvolutionConfig,
    PlaceConfig,
)
from workbench.models.ancestors.elmo_configuration import (
    ElmoConfig,
    ElmoDepthConfig,
    ElmoRecurrenceConfig,
)
from workbench.models.ancestors.parts import SidesConfig, TokenVectorConfig
from workbench.models.ancestors.recurrent_configuration import (
    AlignmentConfig,
    CellConfig,
    ReadoutConfig,
    RecurrentConfig,
)
from workbench.models.ancestors.skip_gram import SkipGramConfig

__all__ = ["bahdanau", "convs2s", "elmo", "luong", "skip_gram"]

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
        depth=SidesConfig(layers=1, decoder_layers=1),
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
        depth=SidesConfig(layers=layers, decoder_layers=layers),
        readout=ReadoutConfig(kind="tanh", size=width, sees_token=False),
        dropout=dropout,
        initializer_range=0.1,
        **_IDS,
    )


def convs2s(
    vocabulary: int = 40000, width: int = 512, layers: int = 20, dropout: float = 0.1
) -> ConvolutionalConfig:
    """The English-Romanian model: kernels of 3 and 512 hidden units throughout; section 5.1 of the paper."""
    return ConvolutionalConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        embeddings=TokenVectorConfig(size=width),
        positions=PlaceConfig(max_length=1024),
        convolution=ConvolutionConfig(kernel=3),
        depth=SidesConfig(layers=layers, decoder_layers=layers),
        dropout=dropout,
        initializer_range=0.1,
        **_IDS,
    )


def elmo(vocabulary: int = 793471, width: int = 512, units: int = 4096, layers: int = 2) -> ElmoConfig:
    """Two LSTM layers in each direction, projected, with a residual connection; section 3.1 of the paper.

    The vocabulary is that of the One Billion Word benchmark. Theirs reads characters, not a table of these words.
    """
    return ElmoConfig(
        vocab_size=vocabulary,
        hidden_size=2 * width,
        recurrence=ElmoRecurrenceConfig(units=units, residual=True),
        depth=ElmoDepthConfig(layers=layers),
        dropout=0.1,
        initializer_range=0.1,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )


def skip_gram(vocabulary: int = 692000, width: int = 300) -> SkipGramConfig:
    """Section 3 of the paper: 300 dimensions, the 692 thousand words that a corpus of news has at least five times."""
    return SkipGramConfig(
        vocab_size=vocabulary, hidden_size=width, pad_token_id=0, bos_token_id=1, eos_token_id=2
    )
