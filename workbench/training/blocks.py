"""The order in which a corpus is read: windows in a seeded order that neither processes nor restarts change."""

from __future__ import annotations

from functools import lru_cache, partial

import numpy as np
from torch.utils.data import Dataset

from workbench.data.corpus_tokens import TokenFile
from workbench.errors import DataError
from workbench.training.objectives import Draw, Ids

__all__ = ["Blocks", "reading_order"]


@lru_cache(maxsize=4)
def reading_order(blocks: int, seed: int, epoch: int) -> Ids:
    """The order of ``blocks`` windows, or pairs, in an epoch."""
    return np.random.default_rng((seed, 0x0D0E, epoch)).permutation(blocks)


class Blocks(Dataset[Draw]):
    """``count`` windows out of a token file: its ids in as few parts of at most ``window`` ids as hold them all.

    The parts are side by side and as equal as can be, so that every id is read exactly once an epoch, and no part is
    much shorter than a window. Item k depends on the seed and k only. ``shuffle=False`` reads them in the corpus's
    order. ``static`` gives a window the same chances each time it comes.
    """

    def __init__(
        self,
        file: TokenFile,
        window: int,
        count: int | None = None,
        *,
        seed: int = 0,
        shuffle: bool = True,
        static: bool = False,
    ) -> None:
        if len(file) < 2:
            raise DataError(f"the corpus has {len(file)} tokens there; at least 2 are needed")
        self.file = file
        self.blocks = -(-len(file) // window)
        self.count = self.blocks if count is None else count
        self.seed = seed
        self.shuffle = shuffle
        self.static = static

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, place: int) -> Draw:
        epoch, turn = divmod(place, self.blocks)
        block = int(reading_order(self.blocks, self.seed, epoch)[turn]) if self.shuffle else turn
        draw = self._read(block, (self.seed, block if self.static else place))
        return Draw(
            draw.ids, draw.sentences, draw.documents, draw.seed, partial(self._elsewhere, block, place)
        )

    def _read(self, block: int, seed: tuple[int, ...]) -> Draw:
        start, end = (len(self.file) * number // self.blocks for number in (block, block + 1))
        return Draw(
            np.asarray(self.file.ids[start:end], dtype=np.int64),
            _inside(self.file.sentences, start, end),
            _inside(self.file.documents, start, end),
            seed,
        )

    def _elsewhere(self, block: int, place: int) -> Draw:
        """Another block than ``block``, where there is one."""
        rng = np.random.default_rng((self.seed, 0x5BA6, place))
        further = 1 + int(rng.integers(max(1, self.blocks - 1)))
        return self._read((block + further) % self.blocks, (self.seed, place))


def _inside(starts: Ids, start: int, end: int) -> Ids:
    low, high = np.searchsorted(starts, [start, end])
    return np.asarray(starts[low:high], dtype=np.int64) - start
