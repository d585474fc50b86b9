"""What preferences are like: how many, how long, how often the longer reply is chosen, which rows say nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import pandas as pd

from workbench.data.preferences import EMPTY, EQUAL, PreferenceData, fault_of
from workbench.data.rows import Preference
from workbench.errors import DataError

__all__ = ["PreferenceReport", "preference_report"]


@dataclass(frozen=True)
class PreferenceReport:
    """Counts of pairs, and lengths of their replies in words that white space separates.

    ``longer_chosen`` is the share of pairs whose chosen reply has more words, ``as_long`` of those with equally many.
    ``duplicates`` are pairs that stand there before, ``contradicted`` those that stand there the other way round.
    ``empty`` and ``equal`` are pairs without a reply, or with the same twice; ``shared_prompts`` the prompts that are
    also among those held out (``None`` where none are given).
    """

    pairs: int
    prompts: int
    several_turns: int
    chosen_words: float
    rejected_words: float
    longer_chosen: float
    as_long: float
    duplicates: int
    contradicted: int
    empty: int
    equal: int
    shared_prompts: int | None = None

    @property
    def word_difference(self) -> float:
        """Mean words of the chosen reply less those of the rejected one."""
        return self.chosen_words - self.rejected_words

    def to_frame(self) -> pd.DataFrame:
        """Columns ``about`` and ``value``, a row for each count, mean and share."""
        rows: list[tuple[str, Any]] = [
            ("pairs", self.pairs),
            ("prompts", self.prompts),
            ("pairs with several turns before the reply", self.several_turns),
            ("mean words of the chosen reply", self.chosen_words),
            ("mean words of the rejected reply", self.rejected_words),
            ("mean difference in words, chosen less rejected", self.word_difference),
            ("share whose chosen reply is longer", self.longer_chosen),
            ("share whose replies are equally long", self.as_long),
            ("duplicated pairs", self.duplicates),
            ("pairs contradicted by another", self.contradicted),
            ("pairs with an empty reply", self.empty),
            ("pairs with two equal replies", self.equal),
        ]
        if self.shared_prompts is not None:
            rows.append(("prompts that are also held out", self.shared_prompts))
        return pd.DataFrame(rows, columns=["about", "value"]).astype({"value": object})


def preference_report(
    data: PreferenceData | Sequence[Preference], held_out: Sequence[Preference] = ()
) -> PreferenceReport:
    """Counts and lengths of pairs; of read data, the rows that were left out are counted too.

    The numbers describe these pairs and have no intervals. Raises :class:`~workbench.errors.DataError` for no pairs.

    Example:
        ```python
        from workbench.data.preference_report import preference_report
        from workbench.data.preferences import read_preferences

        rows = [{"prompt": "Two and two?", "chosen": " It is four.", "rejected": " Five."}]
        print(preference_report(read_preferences(rows)).word_difference)
        ```
    """
    pairs = data.pairs if isinstance(data, PreferenceData) else tuple(data)
    if not pairs:
        raise DataError("no pairs to report on; give one at least")
    left_out = data.left_out if isinstance(data, PreferenceData) else {}
    faults = [fault_of(pair) for pair in pairs]
    differences = [_words(pair.chosen) - _words(pair.rejected) for pair in pairs]
    texts = [(pair.prompt, pair.chosen, pair.rejected) for pair in pairs]
    distinct, prompts = set(texts), {pair.prompt for pair in pairs}
    return PreferenceReport(
        pairs=len(pairs),
        prompts=len(prompts),
        several_turns=sum(len(pair.turns) > 1 for pair in pairs),
        chosen_words=fmean(_words(pair.chosen) for pair in pairs),
        rejected_words=fmean(_words(pair.rejected) for pair in pairs),
        longer_chosen=fmean(difference > 0 for difference in differences),
        as_long=fmean(difference == 0 for difference in differences),
        duplicates=len(texts) - len(distinct),
        contradicted=sum((prompt, b, a) in distinct for prompt, a, b in texts if a != b),
        empty=faults.count(EMPTY) + left_out.get(EMPTY, 0),
        equal=faults.count(EQUAL) + left_out.get(EQUAL, 0),
        shared_prompts=len(prompts & {pair.prompt for pair in held_out}) if held_out else None,
    )


def _words(text: str) -> int:
    return len(text.split())
