"""Preferences and scores of replies: HH-RLHF (Bai et al. 2022), lists of messages (UltraFeedback, Tulu), own tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np

from workbench.data._dataset import DataIdentity, content_hash
from workbench.data.dialogues import begins, dialogue_text, messages_of, shared_turns, turns_of
from workbench.data.hub import HubName, is_hub_name
from workbench.data.rows import Preference, RatedReply, Turn
from workbench.data.source import Hub, Record, Source, field_of
from workbench.data.tables import Rows, is_table, number_of, read_table, records_of, table_name
from workbench.errors import DataError, did_you_mean

__all__ = [
    "EMPTY",
    "EQUAL",
    "HH_RLHF",
    "PREFERENCES",
    "PreferenceData",
    "RatedData",
    "as_rated",
    "fault_of",
    "pairs_of_scores",
    "parse_preference",
    "read_preferences",
    "read_rated",
    "read_replies",
    "split_by_prompt",
]

_PROMPTS = ("prompt", "instruction", "question", "query")
_RESPONSES = ("response", "completion", "reply", "output")
_SCORES = ("score", "rating", "reward", "label")
_SHAPES = "prompt, chosen, rejected (a prompt may be left out of whole dialogues), or prompt, response, score"
_TRUTH = {"true": 1.0, "false": 0.0}
EMPTY = "empty"
EQUAL = "equal"


@dataclass(frozen=True)
class PreferenceData:
    """Pairs that can be learned from, in order. ``left_out``: how many rows had ``empty`` or ``equal`` replies."""

    pairs: tuple[Preference, ...]
    identity: DataIdentity
    name: str
    left_out: dict[str, int]

    @property
    def has_messages(self) -> bool:
        """Whether every prompt is known as messages, which a chat template can write."""
        return all(pair.turns for pair in self.pairs)


@dataclass(frozen=True)
class RatedData:
    """Scored replies, in order."""

    replies: tuple[RatedReply, ...]
    identity: DataIdentity
    name: str


def parse_preference(record: Record, where: str, row: str) -> list[Preference]:
    """The pair of a record; none where a reply is empty or both are equal, since there is nothing to prefer.

    Raises :class:`~workbench.errors.DataError` as :func:`read_preferences` does.
    """
    return [pair for pair in _parse_any(record, where, row) if fault_of(pair) is None]


def fault_of(pair: Preference) -> str | None:
    """Why a pair says nothing: ``empty`` (a reply without text), ``equal`` (both replies are one); else ``None``."""
    chosen, rejected = pair.chosen.strip(), pair.rejected.strip()
    if not chosen or not rejected:
        return EMPTY
    return EQUAL if chosen == rejected else None


def _parse_any(record: Record, where: str, row: str) -> list[Preference]:
    chosen, rejected = (field_of(record, where, name) for name in ("chosen", "rejected"))
    first, second = messages_of(chosen, where, "chosen"), messages_of(rejected, where, "rejected")
    prompt = next((record[name] for name in _PROMPTS if record.get(name)), "")
    before = messages_of(prompt, where, "prompt") if prompt else None
    if first is not None and second is not None:
        before, chosen, rejected = _from_messages(before or (), first, second, where)
    elif first is not None or second is not None:
        raise DataError(f"{where}: one of chosen and rejected is a text, the other a list of messages")
    if before:
        return [_pair(row, dialogue_text(before), f" {chosen}", f" {rejected}", before)]
    if not prompt:
        prompt = shared_turns(chosen, rejected)
        chosen, rejected = chosen[len(prompt) :], rejected[len(prompt) :]
    return [_pair(row, str(prompt), chosen, rejected, turns_of(str(prompt)))]


def _from_messages(
    before: tuple[Turn, ...], chosen: tuple[Turn, ...], rejected: tuple[Turn, ...], where: str
) -> tuple[tuple[Turn, ...], str, str]:
    """The prompt's messages and both replies; the lists may begin with the prompt or leave it out."""
    if len(chosen) > 1 or len(rejected) > 1:
        before = chosen[:-1]
    if rejected[:-1] not in (before, ()) or chosen[:-1] not in (before, ()):
        raise DataError(
            f"{where}: chosen and rejected differ before their last message; one prompt is needed"
        )
    for name, turns in (("chosen", chosen), ("rejected", rejected)):
        if turns[-1][0] != "assistant":
            raise DataError(
                f"{where}: {name} ends with a message of {turns[-1][0]!r:.40}, not of 'assistant'"
            )
    return before, chosen[-1][1], rejected[-1][1]


def _pair(row: str, prompt: str, chosen: str, rejected: str, turns: tuple[Turn, ...]) -> Preference:
    return Preference(row, prompt, chosen, rejected, _cluster(prompt, row), turns)


def _cluster(prompt: str, row: str) -> str:
    """One name for all rows of a prompt, which are not independent of one another; a row without one stands alone."""
    return sha256(prompt.encode()).hexdigest()[:12] if prompt else row


HH_RLHF: Source[Preference] = Source(
    name="hh_rlhf",
    files={
        "test": (
            "harmless_base_test_first500.jsonl",
            "hh_rlhf/harmless_base_test_first500.jsonl",
            "harmless-base/test.jsonl",
            "test.jsonl",
        ),
        "train": ("harmless-base/train.jsonl", "train.jsonl"),
        "whole": ("harmless_base_test.jsonl", "hh_rlhf/harmless_base_test.jsonl"),
    },
    parse=parse_preference,
    hub=Hub("Anthropic/hh-rlhf", splits={"whole": "test"}),
)
PREFERENCES: Source[Preference] = Source(
    name="preferences",
    files={"test": ("preferences.jsonl", "preferences.csv", "test.jsonl")},
    parse=parse_preference,
)
_NAMED = {source.name: source for source in (HH_RLHF, PREFERENCES)}


def read_preferences(
    name: str | Path | Rows,
    data_dir: Path | None = None,
    *,
    split: str | None = None,
    limit: int | None = None,
) -> PreferenceData:
    """The first ``limit`` pairs of a data set by name, of a table or of rows in memory.

    ``name`` is ``hh_rlhf`` or ``preferences`` (files in ``data_dir``; splits ``test``, and of the first ``train`` and
    ``whole``), a CSV, TSV, JSON, JSONL or Parquet file, ``hub:owner/name[@revision][:configuration[:split]]``, or
    rows. A row has ``prompt``, ``chosen`` and ``rejected``: texts, or lists of messages with ``role`` and ``content``
    (also as JSON in a cell); dialogues as HH-RLHF writes them need no prompt. Rows with ``prompt``, ``response`` and
    ``score`` give all pairs of replies to one prompt whose scores differ.

    Rows with an empty reply, or with two equal ones, are left out and counted. Raises
    :class:`~workbench.errors.DataError` naming file and line for anything else, and where no pair is left.

    Example:
        ```python
        from workbench.data.preferences import read_preferences

        rows = [{"prompt": "Two and two?", "chosen": " Four.", "rejected": " Five."}]
        print(read_preferences(rows).pairs[0].chosen)
        ```
    """
    return _kept(*_records(name, data_dir, split), limit)


def read_replies(
    name: str | Path | Rows,
    data_dir: Path | None = None,
    *,
    split: str | None = None,
    limit: int | None = None,
) -> tuple[PreferenceData, bool]:
    """Pairs of replies to be judged, and whether people have: rows with ``prompt``, ``first`` and ``second`` are pairs
    that nobody has, whose first reply stands as chosen; all else is read by :func:`read_preferences`.

    Example:
        ```python
        from workbench.data.preferences import read_replies

        pairs, labelled = read_replies([{"prompt": "Two and two?", "first": " Four.", "second": " Five."}])
        print(pairs.pairs[0].chosen, labelled)
        ```
    """
    label, place, records = _records(name, data_dir, split)
    labelled = not {"first", "second"} <= set(records[0][1]) or "chosen" in records[0][1]
    if not labelled:
        names = {"first": "chosen", "second": "rejected"}
        records = [(at, {names.get(key, key): cell for key, cell in row.items()}) for at, row in records]
    return _kept(label, place, records, limit), labelled


def _kept(label: str, place: str, records: Sequence[tuple[str, Record]], limit: int | None) -> PreferenceData:
    pairs = _all_pairs(records, label)
    kept = tuple(pair for pair in pairs if fault_of(pair) is None)[:limit]
    left_out = {fault: sum(fault_of(pair) == fault for pair in pairs) for fault in (EMPTY, EQUAL)}
    if not kept:
        counts = ", ".join(f"{count} {fault}" for fault, count in left_out.items())
        raise DataError(f"{place}: no row has two different replies ({counts}); give rows with a preference")
    return PreferenceData(
        kept, DataIdentity(label, place, content_hash(map(repr, kept)), len(kept)), label, left_out
    )


def read_rated(
    name: str | Path | Rows,
    data_dir: Path | None = None,
    *,
    split: str | None = None,
    limit: int | None = None,
) -> RatedData:
    """Replies with a score or a label (``true`` is 1), named as in :func:`read_preferences`.

    Columns: ``prompt``, ``response`` (or completion, reply, output) and ``score`` (or rating, reward, label). Of
    preferences, the chosen reply has score 1 and the rejected one 0. Raises :class:`~workbench.errors.DataError` naming
    file and line for an empty reply, and for a score that is no finite number.

    Example:
        ```python
        from workbench.data.preferences import read_rated

        rows = [{"prompt": "Two and two?", "response": " Four.", "label": True}]
        print(read_rated(rows).replies[0].score)
        ```
    """
    label, place, records = _records(name, data_dir, split)
    first = next(iter(records))[1]
    if "chosen" in first:
        replies = as_rated(read_preferences(name, data_dir, split=split).pairs)
    else:
        replies = tuple(_parse_rated(row, at, _id(label, n)) for n, (at, row) in enumerate(records))
    replies = replies[:limit]
    return RatedData(
        replies, DataIdentity(label, place, content_hash(map(repr, replies)), len(replies)), label
    )


def _records(
    name: str | Path | Rows, data_dir: Path | None, split: str | None
) -> tuple[str, str, list[tuple[str, Record]]]:
    """What the data are called, where they are, and each record with its place."""
    if not isinstance(name, str | Path):
        found = records_of(name, "rows")
        return "rows", "rows", [(f"rows, row {number}", row) for number, row in enumerate(found, 1)]
    if str(name) in _NAMED:
        return _of_source(_NAMED[str(name)], data_dir, split)
    if not is_table(name):
        raise DataError(f"no preferences {str(name)!r:.80}; give a table or hub:owner/name, or {_near(name)}")
    place = _with_split(str(name), split)
    records: list[tuple[str, Record]] = list(read_table(place))
    if not records:
        raise DataError(f"{place} has no rows; columns: {_SHAPES}")
    return table_name(place), place, records


def _near(name: str | Path) -> str:
    return did_you_mean(str(name), list(_NAMED))


def _of_source(
    source: Source[Preference], data_dir: Path | None, split: str | None
) -> tuple[str, str, list[tuple[str, Record]]]:
    """The records of a data set by name: of ``split``, else of the first that is there of train, whole and test."""
    wanted = split or next((one for one in ("train", "whole") if source.has(data_dir, one)), "test")
    place, records = source.raw(data_dir, wanted)
    return source.name, place, list(records)


def _with_split(name: str, split: str | None) -> str:
    if split is None:
        return name
    if not is_hub_name(name):
        raise DataError(f"{name} is one table and has no split {split!r}; leave the split out")
    return str(replace(HubName.parse(name), split=split))


def _id(name: str, number: int) -> str:
    return f"{name}-{number:05d}"


def _all_pairs(records: Sequence[tuple[str, Record]], name: str) -> list[Preference]:
    where, first = records[0]
    if "chosen" in first or "rejected" in first:
        parse: Callable[..., list[Preference]] = _parse_any
        return [pair for n, (at, row) in enumerate(records) for pair in parse(row, at, _id(name, n))]
    if not any(column in first for column in _RESPONSES):
        has = ", ".join(map(str, first)) or "nothing"
        raise DataError(f"{where}: no column 'chosen'; preferences have the columns {_SHAPES}; it has {has}")
    return list(pairs_of_scores([_parse_rated(row, at, _id(name, n)) for n, (at, row) in enumerate(records)]))


def _parse_rated(record: Record, where: str, row: str) -> RatedReply:
    prompt, response = field_of(record, where, *_PROMPTS), field_of(record, where, *_RESPONSES)
    turns, reply = messages_of(prompt, where, "prompt"), messages_of(response, where, "response")
    text = response if reply is None else reply[-1][1]
    if not text.strip():
        raise DataError(f"{where}: the response is empty; remove the row")
    value = field_of(record, where, *_SCORES)
    score = number_of(_TRUTH.get(str(value).strip().lower(), value), where, "score")
    if turns:
        prompt, text = dialogue_text(turns), f" {text}"
    return RatedReply(row, prompt, text, score, _cluster(prompt, row), turns or turns_of(prompt))


def pairs_of_scores(replies: Iterable[RatedReply]) -> tuple[Preference, ...]:
    """All pairs of replies to one prompt whose scores differ, the higher one chosen (as in Ouyang et al. 2022).

    Raises :class:`~workbench.errors.DataError` where there is none.

    Example:
        ```python
        from workbench.data.preferences import pairs_of_scores, read_rated

        rows = [{"prompt": "Two and two?", "response": text, "score": score} for text, score in ((" 4", 2), (" 5", 1))]
        print(pairs_of_scores(read_rated(rows).replies)[0].chosen)
        ```
    """
    by_prompt: dict[str, list[RatedReply]] = defaultdict(list)
    for reply in replies:
        by_prompt[reply.prompt].append(reply)
    found = []
    for group in by_prompt.values():
        for first, second in combinations(group, 2):
            if first.score != second.score:
                best, other = (first, second) if first.score > second.score else (second, first)
                name = f"{best.id}>{other.id}"
                texts = (best.prompt, best.response, other.response)
                margin = best.score - other.score
                found.append(Preference(name, *texts, best.cluster, best.turns, margin))
    if not found:
        raise DataError("no prompt has two replies with different scores; pairs are made of such")
    return tuple(found)


def as_rated(pairs: Iterable[Preference]) -> tuple[RatedReply, ...]:
    """Both replies of each pair by themselves: the chosen one with score 1, the rejected one with score 0.

    Example:
        ```python
        from workbench.data.preferences import as_rated, read_preferences

        rows = [{"prompt": "Two and two?", "chosen": " Four.", "rejected": " Five."}]
        print([reply.score for reply in as_rated(read_preferences(rows).pairs)])
        ```
    """
    return tuple(
        RatedReply(f"{pair.id}-{side}", pair.prompt, reply, score, pair.cluster, pair.turns)
        for pair in pairs
        for side, reply, score in (("chosen", pair.chosen, 1.0), ("rejected", pair.rejected, 0.0))
    )


class _Prompted(Protocol):
    @property
    def prompt(self) -> str:
        """The text that was replied to."""

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The same as messages, where it was written so."""


Prompted = TypeVar("Prompted", bound=_Prompted)


def split_by_prompt(
    rows: Sequence[Prompted], share: float = 0.1, seed: int = 0
) -> tuple[tuple[Prompted, ...], tuple[Prompted, ...]]:
    """``rows`` (pairs or rated replies) to train on and to validate on, about ``share`` of them, each in order.

    No prompt is on both sides, nor are dialogues that begin with the same words of the user, since one may go on from
    the other. Raises :class:`~workbench.errors.DataError` for a share outside 0 to 1 and for fewer than two prompts.

    Example:
        ```python
        from workbench.data.preferences import read_preferences, split_by_prompt

        rows = [{"prompt": f"{n} and {n}?", "chosen": f" {2 * n}", "rejected": " No."} for n in range(10)]
        train, validation = split_by_prompt(read_preferences(rows).pairs, 0.2)
        print(len(train), len(validation))
        ```
    """
    if not 0 < share < 1:
        raise DataError(f"the share to hold out is {share}; allowed: between 0 and 1")
    groups: dict[str, list[int]] = defaultdict(list)
    for place, row in enumerate(rows):
        groups[begins(row.prompt, row.turns)].append(place)
    if len(groups) < 2:
        raise DataError(
            f"{len(rows)} rows have {len(groups)} prompt; two at least are needed to hold one out"
        )
    held: set[int] = set()
    members = list(groups.values())
    for number in np.random.default_rng(seed).permutation(len(members))[:-1]:
        if len(held) >= round(share * len(rows)) and held:
            break
        held.update(members[number])
    sides = [place in held for place in range(len(rows))]
    train = tuple(row for row, out in zip(rows, sides, strict=True) if not out)
    return train, tuple(row for row, out in zip(rows, sides, strict=True) if out)
