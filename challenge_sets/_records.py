"""The record that every minimal-pair set yields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["MinimalPair"]


@dataclass(frozen=True)
class MinimalPair:
    """Two texts of which a model should find ``good`` more probable than ``bad``.

    ``id`` is unique within ``set``. ``paradigm`` is the finest grouping, ``phenomenon`` the coarser one.
    """

    id: str
    set: str
    paradigm: str
    phenomenon: str
    good: str
    bad: str
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def members_equal(self) -> bool:
        """Whether both members are the same text, so that no model can tell them apart."""
        return self.good == self.bad
