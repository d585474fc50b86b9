"""The pairs to train on and those held out."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from workbench.data.preferences import (
    RatedData,
    pairs_of_scores,
    read_preferences,
    read_rated,
    split_by_prompt,
)
from workbench.data.rows import Preference, RatedReply
from workbench.data.tables import Rows
from workbench.errors import DataError
from workbench.training.preferences.settings import AlignMethod

__all__ = ["Data", "PreferenceRows", "load_pairs"]

Data: TypeAlias = "str | Path | Rows"


@dataclass(frozen=True)
class PreferenceRows:
    """Pairs to train on and to validate on, with the name of where they came from.

    ``replies`` are what KTO trains on where the data have a score for each reply by itself. ``left_out`` counts rows
    with empty or equal replies.
    """

    name: str
    train: tuple[Preference, ...]
    validation: tuple[Preference, ...]
    replies: tuple[RatedReply, ...] = ()
    left_out: dict[str, int] = field(default_factory=dict)

    @property
    def sha256(self) -> str:
        """Of the rows' content, in order."""
        digest = hashlib.sha256()
        for row in (*self.train, *self.replies, *self.validation):
            digest.update(repr(row).encode("utf-8", "surrogatepass"))
        return digest.hexdigest()


def load_pairs(
    data: Data,
    data_dir: Path | None = None,
    *,
    method: AlignMethod = AlignMethod.DPO,
    split: str | None = None,
    validation: Data | None = None,
    limit: int | None = None,
) -> PreferenceRows:
    """Pairs as :func:`~workbench.data.preferences.read_preferences` takes them.

    Without ``validation`` a tenth of the pairs is held out, by prompt, before ``limit`` is applied to the rest. KTO
    takes scored replies as they are; the pairs held out are those that :func:`pairs_of_scores` makes of them.
    Raises :class:`~workbench.errors.DataError` as these do.

    Example:
        ```python
        from workbench.training.preferences.pairs import load_pairs

        rows = [{"prompt": f"{n} and {n}?", "chosen": f" {2 * n}", "rejected": " No."} for n in range(10)]
        print(len(load_pairs(rows).train))
        ```
    """
    if method is AlignMethod.KTO and (rated := _rated(data, data_dir, split)) is not None:
        return _of_replies(rated, data_dir, validation, limit)
    found = read_preferences(data, data_dir, split=split)
    if validation is None:
        train, held_out = split_by_prompt(found.pairs)
    else:
        train, held_out = found.pairs, read_preferences(validation, data_dir).pairs
    left_out = {fault: count for fault, count in found.left_out.items() if count}
    return PreferenceRows(found.name, train[:limit], held_out, left_out=left_out)


def _rated(data: Data, data_dir: Path | None, split: str | None) -> RatedData | None:
    """Scored replies, if that is what ``data`` are, and not pairs."""
    found = read_rated(data, data_dir, split=split)
    return None if found.replies[0].id.endswith(("-chosen", "-rejected")) else found


def _of_replies(
    found: RatedData, data_dir: Path | None, validation: Data | None, limit: int | None
) -> PreferenceRows:
    if validation is not None:
        pairs = read_preferences(validation, data_dir).pairs
        return PreferenceRows(found.name, (), pairs, found.replies[:limit])
    train, held_out = split_by_prompt(found.replies)
    try:
        return PreferenceRows(found.name, (), pairs_of_scores(held_out), train[:limit])
    except DataError as error:
        raise DataError(
            f"{found.name}: of the replies held out, {error}; name pairs by --validation"
        ) from None
