"""Parts of a configuration that the sequence-to-sequence ancestors share."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.models.parts import require
from workbench.records import check_fields

__all__ = ["SidesConfig", "TokenVectorConfig", "one_of", "positive"]


def one_of(field: str, value: str, allowed: tuple[str, ...]) -> None:
    """Raise :class:`~workbench.errors.ConfigError` unless ``value`` is among ``allowed``."""
    require(value in allowed, field, value, ", ".join(allowed))


def positive(field: str, value: int | None) -> None:
    """Raise :class:`~workbench.errors.ConfigError` for a number below 1; ``None`` stands for a default."""
    require(value is None or value >= 1, field, value, "1 or more")


@dataclass(frozen=True, kw_only=True)
class TokenVectorConfig:
    """``size`` of token vectors, by default that of the states."""

    size: int | None = None

    def __post_init__(self) -> None:
        check_fields(self, "embeddings.")
        positive("embeddings.size", self.size)


@dataclass(frozen=True, kw_only=True)
class SidesConfig:
    """Layers of the encoder, and of the decoder where it has another number."""

    layers: int = 1
    decoder_layers: int | None = None

    def __post_init__(self) -> None:
        check_fields(self, "depth.")
        for name in ("layers", "decoder_layers"):
            positive(f"depth.{name}", getattr(self, name))
