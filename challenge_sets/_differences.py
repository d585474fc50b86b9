"""Where two sequences of token ids agree."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import takewhile

__all__ = ["common_places", "leading"]


def common_places(first: Sequence[int], second: Sequence[int]) -> list[tuple[int, int]]:
    """Places of the ids that both have, in order."""
    blocks = SequenceMatcher(None, list(first), list(second), autojunk=False).get_matching_blocks()
    return [(block.a + k, block.b + k) for block in blocks for k in range(block.size)]


def leading(first: Sequence[int], second: Sequence[int]) -> int:
    """Place of the first id that differs; the last place of the shorter where it begins the longer."""
    same = sum(1 for _ in takewhile(lambda ids: ids[0] == ids[1], zip(first, second, strict=False)))
    return min(same, len(first) - 1, len(second) - 1)
