"""The order in which a corpus is read: windows in a seeded order that neither processes nor restarts change."""

from __future__ import annotations

from functools import lru_cache, partial

import numpy as np
from torch.utils.data import Dataset

from workbench.data.corpus_tokens import TokenFile
from workbench.errors import DataError
from workbench.training.objectives import Draw, Ids

__all__ = ["Blocks", "held_out"]


@lru_cache(maxsize=4)
def _order(blocks: int, seed: int, epoch: int) -> Ids:
    return np.random.default_rng((seed, 0x0D0E, epoch)).permutation(blocks)


class Blocks(Dataset[Draw]):
    """``count`` windows of ``window`` ids out of a token file, each opened by a sentence where one is near.

    Item k depends on the seed and k only. Every window is read once before any is read again. ``shuffle=False``
    reads them in the corpus's order. ``static`` gives a window the same chances each time it comes.
    """

    def __init__(
        self,
        file: TokenFile,
        window: int,
        count: int | None = None,
        *,
        seed: int = 0,
        part: tuple[int, int] | None = None,
        shuffle: bool = True,
        static: bool = False,
    ) -> None:
        self.file = file
        self.first, self.end = part or (0, len(file))
        self.window = min(window, self.end - self.first)
        if self.window < 2:
            raise DataError(f"the corpus has {self.end - self.first} tokens there; at least 2 are needed")
        self.blocks = max(1, (self.end - self.first) // self.window)
        self.count = self.blocks if count is None else count
        self.seed = seed
        self.shuffle = shuffle
        self.static = static

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, place: int) -> Draw:
        epoch, turn = divmod(place, self.blocks)
        block = int(_order(self.blocks, self.seed, epoch)[turn]) if self.shuffle else turn
        draw = self._read(self._start(block), (self.seed, block if self.static else place))
        return Draw(draw.ids, draw.sentences, draw.documents, draw.seed, partial(self._elsewhere, place))

    def _start(self, block: int) -> int:
        """The first sentence in the first half of a block; the block's own start where there is none."""
        start = self.first + block * self.window
        sentences = self.file.sentences
        index = int(np.searchsorted(sentences, start))
        if index < len(sentences) and sentences[index] < start + self.window // 2:
            start = int(sentences[index])
        return min(start, self.end - self.window)

    def _read(self, start: int, seed: tuple[int, ...]) -> Draw:
        end = start + self.window
        return Draw(
            np.asarray(self.file.ids[start:end], dtype=np.int64),
            _inside(self.file.sentences, start, end),
            _inside(self.file.documents, start, end),
            seed,
        )

    def _elsewhere(self, place: int) -> Draw:
        rng = np.random.default_rng((self.seed, 0x5BA6, place))
        return self._read(self._start(int(rng.integers(self.blocks))), (self.seed, place))


def _inside(starts: Ids, start: int, end: int) -> Ids:
    low, high = np.searchsorted(starts, [start, end])
    return np.asarray(starts[low:high], dtype=np.int64) - start


def held_out(file: TokenFile, window: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """The corpus as a part to train on and its last hundredth, at least one window, to validate on.

    Raises :class:`~workbench.errors.DataError` if it is too short for both.
    """
    size = max(window, len(file) // 100)
    if len(file) < 2 * window:
        raise DataError(
            f"the corpus has {len(file)} tokens, fewer than two rows of {window}; shorten --length, or give more text"
        )
    return (0, len(file) - size), (len(file) - size, len(file))
