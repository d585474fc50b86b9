"""The configuration of convolutional encoder-decoders."""

from __future__ import annotations

from dataclasses import dataclass, field

from transformers import PreTrainedConfig

from workbench.errors import ConfigError
from workbench.models.ancestors.parts import SidesConfig, TokenVectorConfig, positive
from workbench.models.built_in import BuiltInConfig
from workbench.models.parts import require
from workbench.records import check_fields

__all__ = ["ConvolutionConfig", "ConvolutionalConfig", "PlaceConfig"]


@dataclass(frozen=True, kw_only=True)
class ConvolutionConfig:
    """``kernel``: tokens that a convolution reads, an odd number; the decoder's end with the token itself."""

    kernel: int = 3

    def __post_init__(self) -> None:
        check_fields(self, "convolution.")
        is_odd = self.kernel >= 1 and self.kernel % 2 == 1
        require(is_odd, "convolution.kernel", self.kernel, "an odd number, 1 or more")


@dataclass(frozen=True, kw_only=True)
class PlaceConfig:
    """Positions are learned: no text is longer than ``max_length`` tokens."""

    max_length: int = 1024

    def __post_init__(self) -> None:
        check_fields(self, "positions.")
        positive("positions.max_length", self.max_length)


class ConvolutionalConfig(BuiltInConfig):
    """A convolutional encoder, and a convolutional decoder each of whose layers attends to it.

    ``hidden_size`` is the width of the convolutions. ``dropout`` acts on token vectors, before each convolution, and
    before the output layer.
    """

    model_type = "workbench-convolutional"
    is_encoder_decoder: bool = True
    embeddings: TokenVectorConfig = field(default_factory=TokenVectorConfig)
    positions: PlaceConfig = field(default_factory=PlaceConfig)
    convolution: ConvolutionConfig = field(default_factory=ConvolutionConfig)
    depth: SidesConfig = field(default_factory=SidesConfig)
    tie_word_embeddings: bool = False

    def check_length(self, length: int) -> None:
        """Raise :class:`~workbench.errors.ConfigError` if there are no positions for ``length`` tokens."""
        if length > self.positions.max_length:
            raise ConfigError(
                f"a sequence of {length} tokens is longer than the learned positions; allowed: up to "
                f"positions.max_length = {self.positions.max_length}; shorten the text"
            )

    @property
    def token_size(self) -> int:
        """Width of token vectors."""
        return self.embeddings.size or self.hidden_size

    @property
    def num_hidden_layers(self) -> int:
        """Convolutions of the decoder."""
        return self.depth.decoder_layers or self.depth.layers

    @property
    def num_attention_heads(self) -> int:
        """One for each layer of the decoder."""
        return 1

    @property
    def max_position_embeddings(self) -> int:
        """The longest sequence, in tokens."""
        return self.positions.max_length

    def layer_counts(self) -> str:
        """Layers of the encoder and of the decoder."""
        return f"{self.depth.layers} + {self.num_hidden_layers}"

    def attention_flops(self, length: int) -> int:
        """Scores and weighted sums over ``length`` source tokens in each layer, for each target token."""
        return 4 * self.num_hidden_layers * self.token_size * length

    def diagram(self) -> str:
        """One layer of the decoder."""
        width, kernel = self.hidden_size, self.convolution.kernel
        states = f"states (batch, tokens, {width})"
        branch = [
            f"convolution over the last {kernel} tokens: {width} → {2 * width}",
            f"gated linear unit: → {width}",
            f"attention to the encoder: 1 head of {self.token_size}",
            "times √0.5",
        ]
        lines = [states, "  │", "  ├────────┐", *(f"  │     {text}" for text in branch), "  +◄───────┘"]
        return "\n".join(
            (f"decoder block, {self.num_hidden_layers} times:", "", *lines, "  times √0.5", states)
        )

    def get_text_config(self, decoder: bool | None = None, encoder: bool | None = None) -> PreTrainedConfig:
        """This configuration itself: encoder and decoder share it."""
        return self
