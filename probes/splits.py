"""Which items are trained on and which tested on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from probes._data import ProbeData
from workbench.errors import DataError
from workbench.shapes import Array

__all__ = ["Split", "held_out", "split_at", "split_items"]


@dataclass(frozen=True, eq=False)
class Split:
    """Item numbers of both parts, and in words how they were parted."""

    train: Array
    test: Array
    statement: str


def split_items(data: ProbeData, how: str, test_share: float, seed: int) -> Split:
    """Part the items by ``sentence``, ``document`` or word ``type``; whole groups go to one side.

    Items of a test word's type are never trained on with ``type``. Raises :class:`DataError` where a side
    would be empty, such as for one document.
    """
    groups = _groups(data, how)
    names, codes = np.unique(groups, return_inverse=True)
    order = np.random.default_rng(seed).permutation(len(names))
    sizes = np.bincount(codes)[order].cumsum()
    chosen = order[: max(1, int(np.searchsorted(sizes, test_share * sizes[-1])))]
    test = np.isin(codes, chosen)
    if test.all() or not test.any():
        raise DataError(
            f"{data.identity.source}: {len(names)} {how}(s) cannot be parted; give --train FILE, or --split sentence"
        )
    statement = f"{len(chosen)} of {len(names)} {how}s kept for testing, drawn with seed {seed}"
    return Split(np.flatnonzero(~test), np.flatnonzero(test), statement)


def _groups(data: ProbeData, how: str) -> Array:
    if how == "type":
        return np.array([item.type for item in data.items])
    if how == "sentence":
        return data.sentence_of
    names = [data.sentences[s].document for s in data.sentence_of]
    if not any(names):
        raise DataError(f"{data.identity.source} names no documents; use --split sentence")
    return np.array(names)


def split_at(data: ProbeData, first_test_sentence: int, how: str = "sentence") -> Split:
    """The sentences before ``first_test_sentence`` train, the others test.

    With ``how="type"`` test items of a word type that is trained on are left out.
    """
    test = data.sentence_of >= first_test_sentence
    train = np.flatnonzero(~test)
    statement = "trained and tested on separate files"
    if how == "type":
        seen = {data.items[i].type for i in train}
        test &= np.array([item.type not in seen for item in data.items])
        statement += ", test items only of word types that the training file lacks"
        if not test.any():
            raise DataError(f"{data.identity.source}: every word of the test file is in the training file")
    return Split(train, np.flatnonzero(test), statement)


def held_out(clusters: Array, seed: int, share: float = 0.1) -> Bool[Array, " item"]:
    """About ``share`` of the items, by whole clusters: where a regularisation strength is chosen."""
    names, codes = np.unique(clusters, return_inverse=True)
    order = np.random.default_rng(seed).permutation(len(names))
    if len(names) < 2:
        return np.zeros(len(clusters), dtype=bool)
    return np.isin(codes, order[: max(1, round(share * len(names)))])
