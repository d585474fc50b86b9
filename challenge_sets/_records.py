"""What challenge sets consist of: minimal pairs and cases of tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["MinimalPair", "TestCase"]


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


@dataclass(frozen=True)
class TestCase:
    """Examples judged together: one for MFT; the original and its variants for INV and DIR.

    An example is one text, or several (question and passage). ``labels`` go with ``examples``; ``template``
    names what the case was made from: failure rates are clustered by it.
    """

    __test__ = False

    id: str
    template: str
    examples: tuple[tuple[str, ...], ...]
    labels: tuple[str | None, ...]
    metadata: Mapping[str, Any] = field(default_factory=dict)
