"""Masked language modelling: some tokens are hidden and predicted from both sides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

import numpy as np
from jaxtyping import Bool

from workbench.choices import member
from workbench.errors import ConfigError
from workbench.shapes import Array
from workbench.training.objectives._draw import IGNORED, Batch, Draw, Ids, SpecialIds, pad_rows

__all__ = ["MaskUnit", "MaskedLM", "choose_spans", "choose_tokens", "choose_words", "hide"]

Chosen = Bool[np.ndarray, " token"]
Units = Array  # (token,) of int: the unit that a chosen token belongs to, NOT_CHOSEN for the others

NOT_CHOSEN = -1

SPAN_SUCCESS, LONGEST_SPAN = 0.2, 10  # Joshi et al. 2020, "SpanBERT", section 3.1: mean length 3.8


class MaskUnit(StrEnum):
    """What is hidden at a time."""

    TOKEN = "token"  # Devlin et al. 2019, section 3.1
    WORD = "word"  # all pieces of a word: BERT's whole-word masking, released in 2019
    SPAN = "span"  # runs of whole words: Joshi et al. 2020, "SpanBERT", section 3.1


class MaskedLM:
    """Rows ``[CLS] ids [SEP]``; a share of the ids is chosen, and of those 80 % become [MASK], 10 % another id.

    What becomes of a chosen token is drawn for each token, of a span for the whole span (:func:`hide`). ``rate`` is
    the share of ids to choose, met exactly for tokens and to within a word or span for the others. Static masks hide
    the same places of a window each time it comes; dynamic ones others (Liu et al. 2019, "RoBERTa", section 4.1): that
    is decided by the draw's seed. With ``isolate_documents`` a row ends where its document does. ``labels`` (B, T) hold
    the true ids at the chosen places, -100 elsewhere.
    """

    auto = "AutoModelForMaskedLM"

    def __init__(
        self,
        special: SpecialIds,
        length: int,
        *,
        rate: float = 0.15,
        unit: MaskUnit | str = MaskUnit.TOKEN,
        isolate_documents: bool = False,
    ) -> None:
        if not 0.0 < rate < 1.0:
            raise ConfigError(f"mask rate is {rate}; allowed: between 0 and 1, such as 0.15")
        special.need("mask", "mlm")
        self.special = special
        self.length = length
        self.rate = rate
        self.isolate_documents = isolate_documents
        self.choose = _CHOOSERS[member(MaskUnit, unit, "unit")]

    @property
    def window(self) -> int:
        """Ids between [CLS] and [SEP]."""
        return self.length - len(self._front) - len(self._back)

    @property
    def _front(self) -> list[int]:
        return [i for i in (self.special.cls,) if i is not None]

    @property
    def _back(self) -> list[int]:
        return [i for i in (self.special.sep,) if i is not None]

    def __call__(self, draws: Sequence[Draw]) -> Batch:
        """The batch: ids, mask of what is no padding, labels."""
        rows, labels = [], []
        for draw in draws:
            ids = first_document(draw) if self.isolate_documents else draw.ids
            ids = np.array([*self._front, *ids, *self._back], dtype=np.int64)
            hidden, label = self.mask(ids, draw.rng())
            rows.append(hidden)
            labels.append(label)
        return {
            "input_ids": pad_rows(rows, self.special.pad),
            "attention_mask": pad_rows([np.ones(len(row), dtype=np.int64) for row in rows], 0),
            "labels": pad_rows(labels, IGNORED),
        }

    def mask(self, ids: Ids, rng: np.random.Generator) -> tuple[Ids, Ids]:
        """The ids with some hidden, and the labels."""
        allowed = ~np.isin(ids, list(self.special.reserved))
        units = self.choose(ids, allowed, self.rate, self.special, rng)
        return hide(ids, units, self.special, rng), np.where(units != NOT_CHOSEN, ids, IGNORED)


def first_document(draw: Draw) -> Ids:
    """The ids up to the first start of another document."""
    inner = draw.documents[draw.documents > 0]
    return draw.ids[: inner[0]] if len(inner) else draw.ids


def hide(ids: Ids, units: Units, special: SpecialIds, rng: np.random.Generator) -> Ids:
    """Of the chosen units 80 % become [MASK], 10 % random ordinary ids, 10 % stay; all tokens of a unit alike.

    Drawn for each unit on its own, so that short rows have these shares too. Devlin et al. 2019, section 3.1, for
    tokens; Joshi et al. 2020, section 3.1, for spans.
    """
    hidden, chosen = ids.copy(), units != NOT_CHOSEN
    fate = rng.random(int(units.max(initial=NOT_CHOSEN)) + 1)[units[chosen]]
    places = np.flatnonzero(chosen)
    masked, replaced = places[fate < 0.8], places[(fate >= 0.8) & (fate < 0.9)]
    hidden[masked] = special.need("mask", "mlm")
    hidden[replaced] = rng.choice(special.ordinary, len(replaced))
    return hidden


def _one_by_one(chosen: Chosen) -> Units:
    """Each chosen token as a unit of its own."""
    return np.where(chosen, np.arange(len(chosen)), NOT_CHOSEN)


def _budget(allowed: Chosen, rate: float) -> int:
    return min(int(allowed.sum()), max(1, round(rate * int(allowed.sum()))))


def choose_tokens(
    ids: Ids, allowed: Chosen, rate: float, special: SpecialIds, rng: np.random.Generator
) -> Units:
    """Exactly ``rate`` of the allowed places, rounded, at least one."""
    chosen = np.zeros(len(ids), dtype=bool)
    chosen[rng.permutation(np.flatnonzero(allowed))[: _budget(allowed, rate)]] = True
    return _one_by_one(chosen)


def choose_words(
    ids: Ids, allowed: Chosen, rate: float, special: SpecialIds, rng: np.random.Generator
) -> Units:
    """Whole words in random order, as long as they fit the budget; each piece is a unit, as in BERT's release."""
    words, chosen, budget = (
        _words(ids, allowed, special),
        np.zeros(len(ids), dtype=bool),
        _budget(allowed, rate),
    )
    for index in rng.permutation(len(words)):
        start, end = words[index]
        if chosen.sum() + end - start <= budget or not chosen.any():
            chosen[start:end] = True
    return _one_by_one(chosen)


def choose_spans(
    ids: Ids, allowed: Chosen, rate: float, special: SpecialIds, rng: np.random.Generator
) -> Units:
    """Runs of whole words, their number from a geometric distribution truncated at ten, until the budget is spent."""
    words, budget = _words(ids, allowed, special), _budget(allowed, rate)
    spans = np.full(len(ids), NOT_CHOSEN)
    for number in range(10 * len(words)):
        chosen = spans != NOT_CHOSEN
        if chosen.sum() >= budget:
            break
        length = span_length(rng)
        first = int(rng.integers(len(words)))
        last = min(first + length, len(words)) - 1
        start, end = words[first][0], words[last][1]
        run = slice(start, end)
        fits = chosen.sum() + (end - start) <= budget + LONGEST_SPAN // 2
        if allowed[run].all() and not chosen[run].any() and fits:
            spans[run] = number
    return spans


def span_length(rng: np.random.Generator) -> int:
    """Geometric(0.2), drawn again above ten: mean 3.8 (Joshi et al. 2020)."""
    while (length := int(rng.geometric(SPAN_SUCCESS))) > LONGEST_SPAN:
        pass
    return length


def _words(ids: Ids, allowed: Chosen, special: SpecialIds) -> list[tuple[int, int]]:
    """Start and end of each word among the allowed places."""
    opens = special.opens_word[ids] | ~np.concatenate(([False], allowed[:-1]))
    starts = np.flatnonzero(opens & allowed)
    words = []
    for start in starts:
        end = start + 1
        while end < len(ids) and allowed[end] and not opens[end]:
            end += 1
        words.append((int(start), int(end)))
    return words


_CHOOSERS: dict[MaskUnit, Callable[..., Units]] = {
    MaskUnit.TOKEN: choose_tokens,
    MaskUnit.WORD: choose_words,
    MaskUnit.SPAN: choose_spans,
}
