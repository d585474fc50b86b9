"""Position encodings behind one interface, :class:`~workbench.nn.positions.base.PositionEncoding`."""

from __future__ import annotations

from workbench.nn.positions.absolute import LearnedPositions, SinusoidalPositions, sinusoids
from workbench.nn.positions.alibi import AlibiPositions, alibi_slopes
from workbench.nn.positions.base import Angles, PositionEncoding
from workbench.nn.positions.relative import RelativeBuckets, bucket_of_distance
from workbench.nn.positions.rotary import RotaryPositions

__all__ = [
    "AlibiPositions",
    "Angles",
    "LearnedPositions",
    "PositionEncoding",
    "RelativeBuckets",
    "RotaryPositions",
    "SinusoidalPositions",
    "alibi_slopes",
    "bucket_of_distance",
    "sinusoids",
]
