"""T5's objectives: removed spans are written out after their sentinels; or a text is continued."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool

from workbench.errors import ConfigError
from workbench.training.objectives._draw import IGNORED, Batch, Draw, Ids, SpecialIds, pad_rows

__all__ = ["PrefixLM", "SpanCorruption", "noise_mask", "source_and_target"]


def source_and_target(sources: Sequence[Ids], targets: Sequence[Ids], pad: int) -> Batch:
    """``input_ids`` and ``attention_mask`` (B, S), ``labels`` (B, T)."""
    return {
        "input_ids": pad_rows(sources, pad),
        "attention_mask": pad_rows([np.ones(len(row), dtype=np.int64) for row in sources], 0),
        "labels": pad_rows(targets, IGNORED),
    }


def noise_mask(
    length: int, rate: float, mean_span: float, rng: np.random.Generator
) -> Bool[np.ndarray, " token"]:
    """Which of ``length`` places are removed: ``rate`` of them, in spans of ``mean_span`` on average.

    Kept and removed runs alternate, each length drawn from all ways to split; the first run is kept.
    Raffel et al. 2020, "T5", section 3.3.4.
    """
    removed = min(max(round(length * rate), 1), length - 1)
    spans = min(max(round(removed / mean_span), 1), removed, length - removed)
    kept_runs, removed_runs = _cut(length - removed, spans, rng), _cut(removed, spans, rng)
    runs = np.stack((kept_runs, removed_runs), axis=1).reshape(-1)  # kept, removed, kept, removed, ...
    return np.repeat(np.arange(2 * spans) % 2 == 1, runs)


def _cut(total: int, parts: int, rng: np.random.Generator) -> Ids:
    """``total`` as a sum of ``parts`` positive numbers, all such sums equally likely."""
    borders = (
        np.sort(rng.choice(total - 1, parts - 1, replace=False)) + 1 if parts > 1 else np.array([], dtype=int)
    )
    return np.diff(np.concatenate(([0], borders, [total]))).astype(np.int64)


class SpanCorruption:
    """Source: the text with each removed span replaced by a sentinel. Target: each sentinel, then its span.

    Raffel et al. 2020, "T5", figure 2, with the released code's ending: no last sentinel, then ``</s>``. Windows
    are as long as gives sources of at most ``length`` ids.
    """

    auto = "AutoModelForSeq2SeqLM"

    def __init__(
        self, special: SpecialIds, length: int, *, rate: float = 0.15, mean_span: float = 3.0
    ) -> None:
        if not (0.0 < rate < 1.0 and mean_span >= 1.0):
            raise ConfigError(
                f"rate {rate}, mean span {mean_span}: allowed are 0 < rate < 1 and a span of 1 or more"
            )
        self.special = special
        self.length = length
        self.rate = rate
        self.mean_span = mean_span
        self.eos = special.need("eos", "span-corruption")
        spans = self._counts(self.window)[1]
        if len(special.sentinels) < spans:
            raise ConfigError(
                f"span corruption of {self.window} ids needs {spans} sentinels, the tokenizer has "
                f"{len(special.sentinels)}; train one for this objective, or shorten --length"
            )

    def _counts(self, length: int) -> tuple[int, int]:
        removed = min(max(round(length * self.rate), 1), length - 1)
        return removed, min(max(round(removed / self.mean_span), 1), removed, length - removed)

    @property
    def window(self) -> int:
        """The longest text whose source, with sentinels and the end, fits ``length``."""
        size = self.length
        while True:
            removed, spans = self._counts(size + 1)
            if size + 1 - removed + spans + 1 > self.length:
                return size
            size += 1

    def __call__(self, draws: Sequence[Draw]) -> Batch:
        """The batch of sources and targets."""
        pairs = [self.corrupt(draw.ids, draw.rng()) for draw in draws]
        return source_and_target([s for s, _ in pairs], [t for _, t in pairs], self.special.pad)

    def corrupt(self, ids: Ids, rng: np.random.Generator) -> tuple[Ids, Ids]:
        """Source and target of one text of two ids or more."""
        removed = noise_mask(len(ids), self.rate, self.mean_span, rng)
        source: list[int] = []
        target: list[int] = []
        starts = np.flatnonzero(np.diff(np.concatenate(([0], removed.astype(np.int8)))) == 1)
        sentinel_at = dict(zip(starts.tolist(), self.special.sentinels, strict=False))
        for place, (token, is_removed) in enumerate(zip(ids.tolist(), removed, strict=True)):
            if place in sentinel_at:
                source.append(sentinel_at[place])
                target.append(sentinel_at[place])
            (target if is_removed else source).append(token)
        return np.array([*source, self.eos]), np.array([*target, self.eos])


class PrefixLM:
    """Source: the text up to a random place. Target: the rest. Raffel et al. 2020, section 3.3.1 and table 3."""

    auto = "AutoModelForSeq2SeqLM"

    def __init__(self, special: SpecialIds, length: int) -> None:
        self.special = special
        self.length = length
        self.eos = special.need("eos", "prefix-lm")

    @property
    def window(self) -> int:
        """Ids of prefix and rest together; one place is for the end."""
        return self.length - 1

    def __call__(self, draws: Sequence[Draw]) -> Batch:
        """The batch of sources and targets."""
        sources, targets = [], []
        for draw in draws:
            split = int(draw.rng().integers(1, max(2, len(draw.ids))))
            sources.append(np.array([*draw.ids[:split], self.eos]))
            targets.append(np.array([*draw.ids[split:], self.eos]))
        return source_and_target(sources, targets, self.special.pad)
