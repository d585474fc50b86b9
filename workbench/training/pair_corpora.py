"""A recipe's pairs of texts: one tokenizer for both sides, their token ids, and the order in which they are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from torch.utils.data import Dataset

from workbench.data.corpus_tokens import TokenFileInfo, tokenizer_hash
from workbench.data.pairs import ParallelPair, pairs_hash, read_pairs
from workbench.errors import ConfigError, DataError
from workbench.text import Role
from workbench.training.blocks import reading_order
from workbench.training.corpora import Corpora, choose_tokenizer
from workbench.training.objectives import Draw, Ids
from workbench.training.settings import DataSource

_BATCHES_OF_POOL = 50

__all__ = ["PairRows", "TokenPairs", "prepare_pairs"]


@dataclass(frozen=True, eq=False)
class TokenPairs:
    """Token ids of all pairs, source before target; ``starts`` (2 * pairs + 1,) says where each text begins."""

    ids: Ids
    starts: Ids
    info: TokenFileInfo

    @classmethod
    def of(cls, pairs: Sequence[ParallelPair], tokenizer: Any, sha256: str) -> TokenPairs:
        """Encode each text by itself, with the tokens that the tokenizer adds to a source and to a target."""
        sources = tokenizer([pair.source for pair in pairs], verbose=False)["input_ids"]
        targets = tokenizer(text_target=[pair.target for pair in pairs], verbose=False)["input_ids"]
        end = tokenizer.eos_token_id
        if end is not None:  # without it a model does not learn to stop
            targets = [ids if ids[-1:] == [end] else [*ids, end] for ids in targets]
        texts = list(chain.from_iterable(zip(sources, targets, strict=True)))
        ids = np.fromiter(chain.from_iterable(texts), dtype=np.int32)
        info = TokenFileInfo(
            tokens=len(ids),
            sentences=len(texts),
            documents=len(pairs),
            characters=sum(len(pair.source) + len(pair.target) for pair in pairs),
            dtype=ids.dtype.name,
            corpus_sha256=sha256,
            tokenizer_sha256=tokenizer_hash(tokenizer),
        )
        return cls(ids, np.cumsum([0, *map(len, texts)]), info)

    def __len__(self) -> int:
        return self.info.tokens

    def pair(self, number: int) -> tuple[Ids, Ids]:
        """Ids of a source and of its target."""
        start, middle, end = self.starts[2 * number : 2 * number + 3]
        return self.ids[start:middle].astype(np.int64), self.ids[middle:end].astype(np.int64)


class PairRows(Dataset[Draw]):
    """``count`` pairs in an order that depends on seed and ``batch`` only, each read once an epoch.

    Pairs that follow each other in a batch are of like length, so that little is padded (Vaswani et al. 2017, section
    5.1). A text of more than ``length`` ids keeps its beginning and its last id, which ends it.
    """

    def __init__(
        self,
        file: TokenPairs,
        length: int,
        count: int | None = None,
        *,
        seed: int = 0,
        batch: int = 1,
        shuffle: bool = True,
    ) -> None:
        self.file = file
        self.length = length
        self.blocks = file.info.documents
        self.count = self.blocks if count is None else count
        self.seed = seed
        self.batch = batch
        self.shuffle = shuffle
        self._epoch, self._ordered = -1, np.zeros(0, dtype=np.int64)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, place: int) -> Draw:
        epoch, turn = divmod(place, self.blocks)
        number = int(self._order(epoch)[turn]) if self.shuffle else turn
        source, target = (self._within(ids) for ids in self.file.pair(number))
        border = np.array([len(source)])
        return Draw(np.concatenate((source, target)), border, np.array([0]), (self.seed, place))

    def _order(self, epoch: int) -> Ids:
        """The pairs of an epoch: pools of many batches, sorted by length; then the batches in another order."""
        if self._epoch != epoch:
            order = reading_order(self.blocks, self.seed, epoch)
            size = _BATCHES_OF_POOL * self.batch
            pools = [order[start : start + size] for start in range(0, self.blocks, size)]
            ranked = np.concatenate([pool[np.argsort(self._sizes[pool], kind="stable")] for pool in pools])
            first = -epoch * self.blocks % self.batch  # these complete the last batch of the epoch before
            whole = (self.blocks - first) // self.batch
            rest = first + whole * self.batch
            batches = ranked[first:rest].reshape(whole, self.batch)[
                reading_order(whole, self.seed + 1, epoch)
            ]
            self._epoch = epoch
            self._ordered = np.concatenate((ranked[:first], batches.reshape(-1), ranked[rest:]))
        return self._ordered

    @cached_property
    def _sizes(self) -> Ids:
        """Ids of source and target together, for each pair."""
        return np.diff(self.file.starts[::2])

    def _within(self, ids: Ids) -> Ids:
        return ids if len(ids) <= self.length else np.append(ids[: self.length - 1], ids[-1])

    @cached_property
    def truncated(self) -> int:
        """Texts that are longer than ``length``."""
        return int((np.diff(self.file.starts) > self.length).sum())


def prepare_pairs(data: DataSource, model: str | None) -> Corpora:
    """Read the pairs, train the tokenizer on both sides or load it, and encode; as :func:`prepare_corpora`.

    Without a validation corpus the last hundredth of the pairs, at least one, is held out. Raises
    :class:`~workbench.errors.ConfigError` without a target column, :class:`~workbench.errors.DataError` for pairs that
    cannot be read.
    """
    if data.target_column is None:
        raise ConfigError(
            "translation learns pairs of texts: name the column of the targets with --target-column, and that of the "
            f"sources with --text-column (now {data.text_column!r})"
        )
    columns = (data.text_column, data.target_column)
    train, digest = read_pairs(data.corpus, *columns), pairs_hash(data.corpus, *columns)
    if data.validation is not None:
        validation, held = read_pairs(data.validation, *columns), pairs_hash(data.validation, *columns)
    elif len(train) < 2:
        raise DataError(f"{data.corpus} has one pair; give more, or others to validate on with --validation")
    else:
        border, held = len(train) - max(1, len(train) // 100), digest
        train, validation = train[:border], train[border:]
    texts = (text for pair in train for text in (pair.source, pair.target))
    key = f"pairs {digest} {columns} {data.validation is None}"
    tokenizer = choose_tokenizer(data, Role.SEQ2SEQ, model, texts, key, sentinels=0)
    files = (TokenPairs.of(train, tokenizer, digest), TokenPairs.of(validation, tokenizer, held))
    return Corpora(tokenizer, *files)
