"""The nested parts of a configuration: small frozen records, each checked when it is made."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from workbench.errors import ConfigError, did_you_mean
from workbench.nn import ACTIVATIONS, GATED_NAMES, NORMS
from workbench.nn.forms import FORMS
from workbench.nn.residual import PLACEMENTS, SCALES
from workbench.records import check_fields

__all__ = [
    "AttentionConfig",
    "DepthConfig",
    "EmbeddingConfig",
    "FeedForwardConfig",
    "FormConfig",
    "HeadConfig",
    "NormConfig",
    "PositionConfig",
    "check_pooling",
    "make_part",
    "require",
]

POSITION_KINDS = ("none", "learned", "sinusoidal", "relative", "alibi", "rotary")
POOLINGS = ("first", "last", "mean", "attention")


def require(is_allowed: bool, field: str, value: object, allowed: str) -> None:
    """Raise :class:`~workbench.errors.ConfigError` naming field, value and allowed values."""
    if not is_allowed:
        raise ConfigError(f"{field} = {value!r} is not allowed; allowed: {allowed}")


def _one_of(field: str, value: object, allowed: Collection[str]) -> None:
    require(value in allowed, field, value, ", ".join(allowed))


def _positive(field: str, value: int | None) -> None:
    require(value is None or value >= 1, field, value, "1 or more")


def _probability(field: str, value: float) -> None:
    require(0.0 <= value < 1.0, field, value, "from 0 up to, not including, 1")


def check_pooling(pooling: str | None, aspects: int | None, prefix: str = "") -> None:
    """Raise :class:`~workbench.errors.ConfigError` for an unknown pooling, or aspects of one that has no queries."""
    if pooling is not None:
        _one_of(f"{prefix}pooling", pooling, POOLINGS)
    _positive(f"{prefix}aspects", aspects)
    has_queries = aspects is None or pooling == "attention"
    require(has_queries, f"{prefix}aspects", aspects, f"none without {prefix}pooling = attention")


@dataclass(frozen=True, kw_only=True)
class AttentionConfig:
    """``scaling`` multiplies the scores; ``None`` is 1/√head_size. ``window`` makes layers local.

    A causal layer with a window sees the token itself and ``window - 1`` before it; a two-sided one
    ``window`` to either side. ``global_every`` leaves every n-th layer global.
    """

    heads: int = 8
    key_value_heads: int | None = None
    head_size: int | None = None
    bias: bool = True
    output_bias: bool = True
    scaling: float | None = None
    softcap: float | None = None
    window: int | None = None
    global_every: int | None = None
    dropout: float = 0.0

    def __post_init__(self) -> None:
        check_fields(self, "attention.")
        for name in ("heads", "key_value_heads", "head_size", "window", "global_every"):
            _positive(f"attention.{name}", getattr(self, name))
        require(
            self.softcap is None or self.softcap > 0, "attention.softcap", self.softcap, "above 0, or none"
        )
        _probability("attention.dropout", self.dropout)
        groups = self.key_value_heads or self.heads
        divisors = ", ".join(str(n) for n in range(1, self.heads + 1) if self.heads % n == 0)
        require(
            self.heads % groups == 0, "attention.key_value_heads", groups, f"a divisor of heads: {divisors}"
        )
        needs_window = self.global_every is None or self.window is not None
        require(needs_window, "attention.global_every", self.global_every, "none without attention.window")


@dataclass(frozen=True, kw_only=True)
class FormConfig:
    """The form of self-attention: ``full``, or one of :data:`workbench.nn.forms.FORMS`, and its sizes.

    In an encoder-decoder the encoder alone takes the form. ``window`` (Longformer, to either side; causal: the token
    itself and those before it), ``global_tokens`` (Longformer, the first ones), ``block`` (BigBird, Reformer) and
    ``random_blocks`` (BigBird) are numbers of tokens or blocks; a length that is no multiple of ``block`` is padded
    inside. ``rank`` is Linformer's, ``landmarks`` Nyströmformer's, ``features`` Performer's, ``rounds`` and ``buckets``
    Reformer's, as is ``across_buckets`` (in a decoder, the paper's chunks, which depend on later tokens), ``factor``
    that of a factorised Synthesizer, ``kernel`` the width of a convolution (31 by default where it is the form). What
    is drawn at random (BigBird's blocks, Performer's features, Reformer's rotations, the scores of a fixed Synthesizer)
    comes from ``seed`` and the layer's number.
    """

    kind: str = "full"
    window: int = 64
    global_tokens: int = 1
    block: int = 64
    random_blocks: int = 3
    rank: int = 128
    landmarks: int = 64
    features: int = 256
    rounds: int = 4
    buckets: int = 32
    across_buckets: bool = False
    factor: int = 8
    kernel: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_fields(self, "form.")
        _one_of("form.kind", self.kind, ["full", *FORMS])
        for name in ("window", "block", "rank", "landmarks", "features", "rounds", "factor", "kernel"):
            _positive(f"form.{name}", getattr(self, name))
        for name in ("global_tokens", "random_blocks", "seed"):
            require(getattr(self, name) >= 0, f"form.{name}", getattr(self, name), "0 or more")
        even = self.buckets >= 2 and self.buckets % 2 == 0
        require(even, "form.buckets", self.buckets, "an even number, 2 or more")


@dataclass(frozen=True, kw_only=True)
class PositionConfig:
    """``max_length`` binds learned positions only. ``offset`` rows of the table come before position 0.

    ``skip_padding`` counts tokens, not places (RoBERTa). ``base``, ``interleaved`` and ``fraction`` are for
    rotary positions, ``buckets`` and ``max_distance`` for relative ones.
    """

    kind: str = "learned"
    max_length: int = 512
    offset: int = 0
    skip_padding: bool = False
    base: float = 10000.0
    interleaved: bool = False
    fraction: float = 1.0
    buckets: int = 32
    max_distance: int = 128

    def __post_init__(self) -> None:
        check_fields(self, "positions.")
        _one_of("positions.kind", self.kind, POSITION_KINDS)
        _positive("positions.max_length", self.max_length)
        require(self.offset >= 0, "positions.offset", self.offset, "0 or more")
        require(self.base > 0, "positions.base", self.base, "above 0")
        require(0 < self.fraction <= 1, "positions.fraction", self.fraction, "above 0, up to 1")
        enough = self.buckets >= 4 and self.buckets % 4 == 0
        require(enough, "positions.buckets", self.buckets, "a multiple of 4")
        farther = self.max_distance > self.buckets // 2
        require(
            farther, "positions.max_distance", self.max_distance, f"above buckets / 2 = {self.buckets // 2}"
        )


@dataclass(frozen=True, kw_only=True)
class NormConfig:
    """``final`` adds a norm after the last layer; ``embeddings`` one after the embeddings."""

    kind: str = "layer_norm"
    placement: str = "pre"
    epsilon: float = 1e-5
    residual_scale: str = "none"
    embeddings: bool = False
    final: bool = True

    def __post_init__(self) -> None:
        check_fields(self, "norm.")
        _one_of("norm.kind", self.kind, NORMS)
        _one_of("norm.placement", self.placement, PLACEMENTS)
        _one_of("norm.residual_scale", self.residual_scale, SCALES)
        require(self.epsilon >= 0, "norm.epsilon", self.epsilon, "0 or more")


@dataclass(frozen=True, kw_only=True)
class FeedForwardConfig:
    """``activation`` names a function, or a gated variant: geglu, swiglu, …; ``size`` is the inner width.

    ``experts`` makes every ``expert_every``-th layer a mixture of so many parts, of which each token goes through
    ``experts_per_token``: see :class:`workbench.nn.Router`, also for ``capacity_factor`` (``None``: no bound) and
    ``router_noise``. ``balance`` multiplies each such layer's load-balance loss, which training adds.
    """

    activation: str = "gelu"
    size: int = 2048
    bias: bool = True
    dropout: float = 0.0
    experts: int | None = None
    experts_per_token: int = 1
    expert_every: int = 1
    capacity_factor: float | None = None
    balance: float = 0.01
    router_noise: bool = False

    def __post_init__(self) -> None:
        check_fields(self, "feed_forward.")
        _one_of("feed_forward.activation", self.activation, [*ACTIVATIONS, *GATED_NAMES])
        for name in ("size", "experts", "experts_per_token", "expert_every"):
            _positive(f"feed_forward.{name}", getattr(self, name))
        if self.experts is not None:
            fits = self.experts_per_token <= self.experts
            require(fits, "feed_forward.experts_per_token", self.experts_per_token, f"up to {self.experts}")
        capacity = self.capacity_factor
        require(
            capacity is None or capacity > 0, "feed_forward.capacity_factor", capacity, "above 0, or none"
        )
        require(self.balance >= 0, "feed_forward.balance", self.balance, "0 or more")
        _probability("feed_forward.dropout", self.dropout)


@dataclass(frozen=True, kw_only=True)
class EmbeddingConfig:
    """``size`` below the width of the model factorises the table. ``scaled`` multiplies vectors by √width.

    ``frozen_padding`` keeps the vector of the padding token as it is while the others learn.
    """

    size: int | None = None
    segments: int = 0
    scaled: bool = False
    dropout: float = 0.0
    frozen_padding: bool = False

    def __post_init__(self) -> None:
        check_fields(self, "embeddings.")
        _positive("embeddings.size", self.size)
        require(self.segments >= 0, "embeddings.segments", self.segments, "0 or more")
        _probability("embeddings.dropout", self.dropout)


@dataclass(frozen=True, kw_only=True)
class DepthConfig:
    """``decoder_layers`` is for encoder-decoders. ``groups``: how many layers differ (ALBERT).

    With one group layers are steps of a recurrence (Universal Transformer): ``step_encoding`` adds its number and
    the positions to each; ``halting`` is the sum of halting probabilities, such as 0.99, at which a position stops
    before the last step, and ``ponder`` the weight of the number of steps in the loss in training.

    ``pool_every`` halves the tokens of an encoder after every so many layers, until the last ``upsampled_layers``,
    which read all tokens again (Funnel-Transformer).
    """

    layers: int = 6
    decoder_layers: int | None = None
    groups: int | None = None
    step_encoding: bool = False
    halting: float | None = None
    ponder: float = 0.01
    pool_every: int | None = None
    upsampled_layers: int = 0

    def __post_init__(self) -> None:
        check_fields(self, "depth.")
        self._check_steps()
        self._check_pooling()
        for name in ("layers", "decoder_layers", "groups"):
            _positive(f"depth.{name}", getattr(self, name))
        for name in ("layers", "decoder_layers"):
            layers = getattr(self, name)
            divides = layers is None or self.groups is None or layers % self.groups == 0
            require(divides, "depth.groups", self.groups, f"a divisor of {name} = {layers}")

    def _check_steps(self) -> None:
        require(
            self.halting is None or 0 < self.halting <= 1, "depth.halting", self.halting, "above 0, up to 1"
        )
        require(self.ponder >= 0, "depth.ponder", self.ponder, "0 or more")
        if self.has_steps:
            require(
                self.groups == 1, "depth.groups", self.groups, "1, with depth.step_encoding or depth.halting"
            )

    def _check_pooling(self) -> None:
        _positive("depth.pool_every", self.pool_every)
        require(self.upsampled_layers >= 0, "depth.upsampled_layers", self.upsampled_layers, "0 or more")
        if self.pool_every is None:
            require(
                self.upsampled_layers == 0,
                "depth.upsampled_layers",
                self.upsampled_layers,
                "0 without pooling",
            )
            return
        pooled = self.layers - self.upsampled_layers
        fits = pooled >= 2 * self.pool_every and pooled % self.pool_every == 0
        require(
            fits,
            "depth.pool_every",
            self.pool_every,
            f"a divisor of the {pooled} layers before up-sampling, not all",
        )
        unshared = self.groups in (None, self.layers)
        require(unshared, "depth.groups", self.groups, "none, with depth.pool_every")

    @property
    def has_steps(self) -> bool:
        """Whether layers are steps of a recurrence."""
        return self.step_encoding or self.halting is not None


@dataclass(frozen=True, kw_only=True)
class HeadConfig:
    """The output layer. ``transform`` names the activation of a dense layer and norm before it (BERT).

    ``scaled`` multiplies its input by 1/√width (T5); ``pooler`` names the activation over the [CLS] state.
    ``pooling`` says which vector a classifier of texts reads; ``None`` is the first token's of an encoder, the last
    one's of a decoder. "attention" learns ``aspects`` queries, all read for every label; ``None``: one for each label,
    read for that label alone.
    """

    transform: str | None = None
    bias: bool = False
    scaled: bool = False
    pooler: str | None = "tanh"
    pooling: str | None = None
    aspects: int | None = None

    def __post_init__(self) -> None:
        check_fields(self, "head.")
        check_pooling(self.pooling, self.aspects, "head.")
        for name in ("transform", "pooler"):
            if getattr(self, name) is not None:
                _one_of(f"head.{name}", getattr(self, name), ACTIVATIONS)


Part = TypeVar("Part")


def make_part(part: type[Part], field: str, value: Part | dict[str, Any]) -> Part:
    """A part from its dictionary; an unknown key raises ``ConfigError`` with near ones."""
    if isinstance(value, part):
        return value
    require(isinstance(value, dict), field, value, f"a mapping or {part.__name__}")
    assert isinstance(value, dict)
    known = [f.name for f in fields(part)]  # type: ignore[arg-type]
    for key in value:
        if key not in known:
            raise ConfigError(f"{field}.{key} is not a setting; {did_you_mean(key, known)}")
    return part(**value)
