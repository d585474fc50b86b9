"""The nested configuration of the built-in transformers, as transformers configurations."""

from __future__ import annotations

from dataclasses import field

from transformers import PreTrainedConfig

from workbench.errors import ConfigError
from workbench.models.built_in import BuiltInConfig
from workbench.models.parts import (
    POSITION_KINDS,
    AttentionConfig,
    DepthConfig,
    EmbeddingConfig,
    FeedForwardConfig,
    FormConfig,
    HeadConfig,
    NormConfig,
    PositionConfig,
    require,
)
from workbench.nn.forms import FORMS
from workbench.nn.masks import layer_types

__all__ = ["DecoderConfig", "EncoderConfig", "EncoderDecoderConfig", "TransformerConfig"]


class TransformerConfig(BuiltInConfig):
    """What all three shapes share. Parts may be given as records or as dictionaries; all are checked here.

    ``dropout`` acts on each update before it is added. Raises :class:`~workbench.errors.ConfigError`.
    """

    attention: AttentionConfig = field(default_factory=AttentionConfig)
    form: FormConfig = field(default_factory=FormConfig)
    positions: PositionConfig = field(default_factory=PositionConfig)
    norm: NormConfig = field(default_factory=NormConfig)
    feed_forward: FeedForwardConfig = field(default_factory=FeedForwardConfig)
    embeddings: EmbeddingConfig = field(default_factory=EmbeddingConfig)
    depth: DepthConfig = field(default_factory=DepthConfig)
    head: HeadConfig = field(default_factory=HeadConfig)

    def _check(self) -> None:
        """What one part alone cannot know."""
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
        self._check_form()
        if self.depth.pool_every is not None:
            self._check_pooling()
        if self.depth.step_encoding:
            factor = self.embeddings.size
            require(factor in (None, width), "embeddings.size", factor, "none, with depth.step_encoding")
            require(width % 2 == 0, "hidden_size", width, "even, with depth.step_encoding")

    def _check_pooling(self) -> None:
        """Pooled places have no distances between tokens, and none of the texts to generate."""
        pooled = self.depth.pool_every
        is_encoder = self.model_type == EncoderConfig.model_type
        require(is_encoder, "depth.pool_every", pooled, "none, but for an encoder")
        kinds = ("none", "learned", "sinusoidal")
        chosen = self.positions.kind
        require(chosen in kinds, "positions.kind", chosen, f"{', '.join(kinds)}, with depth.pool_every")
        require(self.form.kind == "full", "form.kind", self.form.kind, "full, with depth.pool_every")
        window = self.attention.window
        require(window is None, "attention.window", window, "none, with depth.pool_every")

    def _check_form(self) -> None:
        """A form other than full attention has no room for a bias, a cap or a second window."""
        kind = self.form.kind
        if kind == "full":
            return
        needs_pairs = ("relative", "alibi") if FORMS[kind].compares else ("relative", "alibi", "rotary")
        unbiased = [name for name in POSITION_KINDS if name not in needs_pairs]
        chosen = self.positions.kind
        require(
            chosen in unbiased, "positions.kind", chosen, f"{', '.join(unbiased)}, with form.kind = {kind}"
        )
        for name in ("window", "softcap"):
            value = getattr(self.attention, name)
            require(value is None, f"attention.{name}", value, f"none, with form.kind = {kind}")
        self._check_form_sizes()

    def _check_form_sizes(self) -> None:
        """Sizes of a form that have to fit one another."""
        form, length = self.form, self.positions.max_length
        if form.kind == "synthesizer_factorised":
            allowed = f"a divisor of positions.max_length = {length}"
            require(length % form.factor == 0, "form.factor", form.factor, allowed)
        if form.kind == "nystromformer":
            is_odd = form.kernel is None or form.kernel % 2 == 1
            require(
                is_odd, "form.kernel", form.kernel, "none or an odd number, with form.kind = nystromformer"
            )
        if form.kind == "reformer":
            shared, heads = self.attention.key_value_heads, self.attention.heads
            allowed = (
                f"none or attention.heads = {heads}, with form.kind = reformer, whose keys are its queries"
            )
            require(shared in (None, heads), "attention.key_value_heads", shared, allowed)

    def form_kind(self, *, is_causal: bool) -> str:
        """The form of self-attention of one side; the decoder of an encoder-decoder keeps full attention."""
        return "full" if is_causal and self.is_encoder_decoder else self.form.kind

    def check_length(self, length: int) -> None:
        """Raise :class:`~workbench.errors.ConfigError` if ``length`` tokens have no learned weights of their places."""
        kind = self.form.kind
        is_bound = self.positions.kind == "learned" or (kind != "full" and FORMS[kind].has_places)
        if is_bound and length > self.positions.max_length:
            what = "learned positions" if self.positions.kind == "learned" else f"{kind} attention"
            raise ConfigError(
                f"a sequence of {length} tokens is longer than the {what}; allowed: up to "
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


class EncoderConfig(TransformerConfig):
    """Every token sees every other one."""

    model_type = "workbench-encoder"


class DecoderConfig(TransformerConfig):
    """Every token sees itself and those before it."""

    model_type = "workbench-decoder"

    def _check(self) -> None:
        super()._check()
        causal = ["full", *(name for name, form in FORMS.items() if form.can_be_causal)]
        kind = self.form.kind
        require(kind in causal, "form.kind", kind, f"in a decoder {', '.join(causal)}; use an encoder")
        if kind != "full" and not FORMS[kind].can_cache:
            self.use_cache = False


class EncoderDecoderConfig(TransformerConfig):
    """An encoder of the source and a decoder that attends to it."""

    model_type = "workbench-encoder-decoder"
    is_encoder_decoder: bool = True

    @property
    def num_hidden_layers(self) -> int:
        """Layers of the decoder, whose keys and values are cached."""
        return self.depth.decoder_layers or self.depth.layers

    def layer_counts(self) -> str:
        """Layers of the encoder and of the decoder."""
        return f"{self.depth.layers} + {self.num_hidden_layers}"

    def get_text_config(self, decoder: bool | None = None, encoder: bool | None = None) -> PreTrainedConfig:
        """This configuration itself: encoder and decoder share it."""
        return self
