"""The nested configuration of the built-in transformers, as transformers configurations."""

from __future__ import annotations

from dataclasses import asdict, field, is_dataclass
from typing import Any, ClassVar

import yaml
from transformers import PreTrainedConfig

from workbench.errors import ConfigError, did_you_mean
from workbench.models.parts import (
    AttentionConfig,
    DepthConfig,
    EmbeddingConfig,
    FeedForwardConfig,
    HeadConfig,
    NormConfig,
    PositionConfig,
    make_part,
    require,
)
from workbench.nn.masks import layer_types
from workbench.records import check_value
from workbench.yaml_reader import parse

__all__ = ["DecoderConfig", "EncoderConfig", "EncoderDecoderConfig", "TransformerConfig"]

_PARTS = {
    "attention": AttentionConfig,
    "positions": PositionConfig,
    "norm": NormConfig,
    "feed_forward": FeedForwardConfig,
    "embeddings": EmbeddingConfig,
    "depth": DepthConfig,
    "head": HeadConfig,
}
# fields beside the parts, and their types
_PLAIN = {
    **{"vocab_size": int, "hidden_size": int, "dropout": float, "initializer_range": float},
    "tie_word_embeddings": bool,
    **{f"{name}_token_id": int | None for name in ("pad", "bos", "decoder_start")},
    "eos_token_id": int | list | None,
}


class TransformerConfig(PreTrainedConfig):
    """What all three shapes share. Parts may be given as records or as dictionaries; all are checked here.

    ``tie_word_embeddings``: the output layer is the token table (Press and Wolf 2017, section 3).
    ``dropout`` acts on each update before it is added. Raises :class:`~workbench.errors.ConfigError`.
    """

    vocab_size: int = 32000
    hidden_size: int = 512
    attention: AttentionConfig = field(default_factory=AttentionConfig)
    positions: PositionConfig = field(default_factory=PositionConfig)
    norm: NormConfig = field(default_factory=NormConfig)
    feed_forward: FeedForwardConfig = field(default_factory=FeedForwardConfig)
    embeddings: EmbeddingConfig = field(default_factory=EmbeddingConfig)
    depth: DepthConfig = field(default_factory=DepthConfig)
    head: HeadConfig = field(default_factory=HeadConfig)
    dropout: float = 0.0
    classifier_dropout: float | None = None
    initializer_range: float = 0.02
    tie_word_embeddings: bool = True
    use_cache: bool = True
    pad_token_id: int | None = None
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None
    decoder_start_token_id: int | None = None

    keys_to_ignore_at_inference: ClassVar[list[str]] = ["cache"]

    def __post_init__(self, **kwargs: Any) -> None:
        for name, part in _PARTS.items():
            setattr(self, name, make_part(part, name, getattr(self, name)))
        super().__post_init__(**kwargs)
        self._check()

    def _check(self) -> None:
        """What one part alone cannot know."""
        for name, hint in _PLAIN.items():
            check_value(name, getattr(self, name), hint)
        require(self.vocab_size >= 1, "vocab_size", self.vocab_size, "1 or more")
        require(self.hidden_size >= 1, "hidden_size", self.hidden_size, "1 or more")
        require(0.0 <= self.dropout < 1.0, "dropout", self.dropout, "from 0 up to, not including, 1")
        heads, width = self.attention.heads, self.hidden_size
        if self.attention.head_size is None:
            require(width % heads == 0, "hidden_size", width, f"a multiple of attention.heads = {heads}")
        if self.positions.kind == "rotary":
            turned = self.head_dim * self.positions.fraction
            allowed = "an even number of dimensions turned by rotary positions"
            require(turned >= 2 and turned % 2 == 0, "head size * positions.fraction", turned, allowed)
        if self.positions.kind == "sinusoidal":
            size = self.embeddings.size or width
            require(size % 2 == 0, "embeddings.size or hidden_size", size, "even, for sinusoidal positions")
        if self.embeddings.frozen_padding or self.positions.skip_padding:
            require(
                self.pad_token_id is not None, "pad_token_id", None, "an id, with frozen or skipped padding"
            )

    def check_length(self, length: int) -> None:
        """Raise :class:`~workbench.errors.ConfigError` if learned positions cannot hold ``length`` tokens."""
        if self.positions.kind == "learned" and length > self.positions.max_length:
            raise ConfigError(
                f"a sequence of {length} tokens is longer than the learned positions; allowed: up to "
                f"positions.max_length = {self.positions.max_length}; shorten the text"
            )

    # The names below are those by which transformers and other tools ask any configuration.

    @property
    def num_attention_heads(self) -> int:
        """Query heads of each layer."""
        return self.attention.heads

    @property
    def num_key_value_heads(self) -> int:
        """Key/value heads of each layer."""
        return self.attention.key_value_heads or self.attention.heads

    @property
    def head_dim(self) -> int:
        """Width of one head."""
        return self.attention.head_size or self.hidden_size // self.attention.heads

    @property
    def num_hidden_layers(self) -> int:
        """Layers; of the decoder, where there is an encoder too."""
        return self.depth.layers

    @property
    def intermediate_size(self) -> int:
        """Inner width of the feed-forward layers."""
        return self.feed_forward.size

    @property
    def max_position_embeddings(self) -> int:
        """The longest sequence that the configuration is meant for, in tokens."""
        return self.positions.max_length

    @property
    def sliding_window(self) -> int | None:
        """Window of the local layers."""
        return self.attention.window

    @property
    def layer_types(self) -> list[str]:
        """``full_attention`` or ``sliding_attention`` for each layer."""
        return layer_types(self.num_hidden_layers, self.attention.window, self.attention.global_every)

    @property
    def encoder_layer_types(self) -> list[str]:
        """The same for the layers of an encoder."""
        return layer_types(self.depth.layers, self.attention.window, self.attention.global_every)

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries all the way down, fit for JSON and YAML."""
        plain = super().to_dict()
        return {
            name: asdict(v) if is_dataclass(v) and not isinstance(v, type) else v for name, v in plain.items()
        }

    def settings(self) -> dict[str, Any]:
        """The settings that define the architecture; :meth:`from_settings` takes them."""
        settings = self.to_dict()
        names = ["model_type", "vocab_size", "hidden_size", *_PARTS, "dropout", "tie_word_embeddings"]
        names += [
            "pad_token_id",
            "bos_token_id",
            "eos_token_id",
            "decoder_start_token_id",
            "initializer_range",
        ]
        return {n: settings[n] for n in names if settings.get(n) is not None}

    def to_yaml(self) -> str:
        """:meth:`settings` as YAML; :meth:`from_yaml` reads them."""
        return yaml.safe_dump(self.settings(), sort_keys=False)

    @classmethod
    def from_yaml(cls, text: str) -> TransformerConfig:
        """The configuration written by :meth:`to_yaml`, of the class that its ``model_type`` names."""
        return cls.from_settings(parse(text, "the configuration"))

    @classmethod
    def from_settings(cls, settings: Any, where: str = "the configuration") -> TransformerConfig:
        """The configuration of the class that ``model_type`` names.

        Raises :class:`~workbench.errors.ConfigError`, naming ``where`` if it is no mapping of settings.
        """
        require(isinstance(settings, dict), where, settings, "a mapping of settings")
        by_type = {shape.model_type: shape for shape in (EncoderConfig, DecoderConfig, EncoderDecoderConfig)}
        model_type = str(settings.get("model_type"))
        require(model_type in by_type, "model_type", model_type, ", ".join(by_type))
        known = list(by_type[model_type]().to_dict())
        for name in settings:
            if name not in known:
                raise ConfigError(f"{where}: unknown setting {name!r}; {did_you_mean(str(name), known)}")
        return by_type[model_type](**{k: v for k, v in settings.items() if k != "model_type"})


class EncoderConfig(TransformerConfig):
    """Every token sees every other one."""

    model_type = "workbench-encoder"


class DecoderConfig(TransformerConfig):
    """Every token sees itself and those before it."""

    model_type = "workbench-decoder"


class EncoderDecoderConfig(TransformerConfig):
    """An encoder of the source and a decoder that attends to it."""

    model_type = "workbench-encoder-decoder"
    is_encoder_decoder: bool = True

    @property
    def num_hidden_layers(self) -> int:
        """Layers of the decoder, whose keys and values are cached."""
        return self.depth.decoder_layers or self.depth.layers

    def get_text_config(self, decoder: bool | None = None, encoder: bool | None = None) -> PreTrainedConfig:
        """This configuration itself: encoder and decoder share it."""
        return self
