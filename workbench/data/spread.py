"""Which items a limit keeps: of grouped data some of every group, not the first groups alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["spread"]


def spread(groups: Sequence[str | None], limit: int | None, seed: int) -> list[int]:
    """Positions, in order, of at most ``limit`` items, as equally many of each group as there are.

    Of each group the first items are taken; ``seed`` draws which groups have one more where ``limit`` does not divide.
    Data of one group, or without groups (``None``), give its first items.
    """
    if limit is None or limit >= len(groups):
        return list(range(len(groups)))
    members: dict[str | None, list[int]] = {}
    for position, group in enumerate(groups):
        members.setdefault(group, []).append(position)
    columns = list(members.values())
    order = np.random.default_rng(seed).permutation(len(columns))
    rank = {column: int(place) for place, column in enumerate(order)}
    # (how many of its group come before, the group's place in the draw): a round of all groups, then the next one
    turns = [
        (turn, rank[number], position)
        for number, column in enumerate(columns)
        for turn, position in enumerate(column)
    ]
    return sorted(position for _, _, position in sorted(turns)[:limit])
