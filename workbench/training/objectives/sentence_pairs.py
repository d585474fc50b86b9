"""Objectives over two segments: does the second follow the first, or do they stand in order?"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import numpy as np
import torch

from workbench.choices import member
from workbench.errors import ConfigError
from workbench.models.configuration import EncoderConfig
from workbench.training.objectives._draw import (
    IGNORED,
    Batch,
    Draw,
    Ids,
    SpecialIds,
    pad_rows,
    sentence_parts,
)
from workbench.training.objectives.masked import MaskedLM, MaskUnit

__all__ = ["PairTask", "SentencePairs"]


class PairTask(StrEnum):
    """What label 1 means."""

    NEXT_SENTENCE = "next-sentence"  # the second segment is from elsewhere: Devlin et al. 2019, section 3.1
    SENTENCE_ORDER = "sentence-order"  # the segments were swapped: Lan et al. 2020, "ALBERT", section 3.1


class SentencePairs:
    """Rows ``[CLS] A [SEP] B [SEP]`` with masked tokens, and a label for the pair that is 1 half of the time.

    A window is split at the sentence nearest its middle; where documents end inside a window, the halves may be of two,
    as the papers' are not. ``labels`` (B, T) are those of masked tokens, ``next_sentence_label`` (B,) is 0 for pairs as
    they stood in the text.
    """

    auto = "AutoModelForPreTraining"
    trains = EncoderConfig

    def __init__(
        self,
        special: SpecialIds,
        length: int,
        *,
        task: PairTask | str,
        rate: float = 0.15,
        unit: MaskUnit | str = MaskUnit.TOKEN,
    ) -> None:
        if length < 8:
            raise ConfigError(f"length is {length}; sentence pairs need at least 8 tokens")
        self.special = special
        self.length = length
        self.task = member(PairTask, task, "sentence-pair task")
        self.cls, self.sep = special.need("cls", task), special.need("sep", task)
        self.masked = MaskedLM(special, length, rate=rate, unit=unit)

    @property
    def window(self) -> int:
        """Ids of both segments together."""
        return self.length - 3

    def __call__(self, draws: Sequence[Draw]) -> Batch:
        """The batch: ids, segments, mask, labels, and the label of each pair."""
        rows, labels, segments, answers = [], [], [], []
        for draw in draws:
            rng = draw.rng()
            changed = bool(rng.random() < 0.5)
            first, second = self._pair(draw, changed)
            ids = np.array([self.cls, *first, self.sep, *second, self.sep], dtype=np.int64)
            hidden, label = self.masked.mask(ids, rng)
            rows.append(hidden)
            labels.append(label)
            segments.append(np.repeat([0, 1], [len(first) + 2, len(second) + 1]))
            answers.append(int(changed))
        return {
            "input_ids": pad_rows(rows, self.special.pad),
            "attention_mask": pad_rows([np.ones(len(row), dtype=np.int64) for row in rows], 0),
            "token_type_ids": pad_rows(segments, 0),
            "labels": pad_rows(labels, IGNORED),
            "next_sentence_label": torch.tensor(answers),
        }

    def _pair(self, draw: Draw, changed: bool) -> tuple[Ids, Ids]:
        first, second = _halves(draw)
        if not changed:
            return first, second
        if self.task is PairTask.SENTENCE_ORDER:
            return second, first
        assert draw.spare is not None
        elsewhere = _halves(draw.spare())[1]
        return first, elsewhere[: self.window - len(first)]


def _halves(draw: Draw) -> tuple[Ids, Ids]:
    """The window split at the sentence start nearest its middle; in the middle where no sentence starts."""
    middle = len(draw.ids) // 2
    ends = np.cumsum([len(part) for part in sentence_parts(draw)])[:-1]
    split = int(ends[np.argmin(np.abs(ends - middle))]) if len(ends) else middle
    return draw.ids[:split], draw.ids[split:]
