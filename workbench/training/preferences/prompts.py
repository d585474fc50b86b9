"""Prompts to write replies to: from a table, from pairs, or those that a reward brings with it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from workbench.data.preferences import read_preferences, split_by_prompt
from workbench.data.rows import Preference
from workbench.data.tables import is_table, read_table, table_name
from workbench.errors import ConfigError
from workbench.scoring import Reward
from workbench.training.preferences.pairs import Data, PreferenceRows, load_pairs
from workbench.training.preferences.planted import PLANTED, planted_rows
from workbench.training.preferences.settings import ONLINE, AlignSettings

__all__ = ["load_prompts", "load_rows"]


def load_rows(
    data: Data | None,
    settings: AlignSettings,
    reward: Reward | None,
    *,
    writer: str = "",
    data_dir: Path | str | None = None,
    split: str | None = None,
    validation: Data | None = None,
    limit: int | None = None,
) -> PreferenceRows:
    """Pairs, or for a method that writes replies prompts: what ``settings.method`` trains on.

    ``writer`` is the model whose replies the planted pairs are (:mod:`workbench.training.preferences.planted`).

    Raises :class:`~workbench.errors.ConfigError` where data or a reward are missing, or a reward has no use.
    """
    place = None if data_dir is None else Path(data_dir)
    online = settings.method in ONLINE
    if online:
        if reward is None:
            raise ConfigError(
                f"method {settings.method} needs --reward: model:NAME, model:NAME#LABEL, pattern:REGEX, "
                "python:module:function or suite:FILE"
            )
    elif reward is not None:
        raise ConfigError(
            f"method {settings.method} learns from pairs and takes no --reward; methods that do: {', '.join(ONLINE)}"
        )
    if isinstance(data, str) and data == PLANTED:
        if split is not None or validation is not None:
            raise ConfigError(
                f"data {PLANTED} are drawn and hold some out; leave out --split and --validation"
            )
        return planted_rows(writer, online=online, limit=limit)
    if online:
        assert reward is not None
        return load_prompts(data, reward, place, split=split, validation=validation, limit=limit)
    if data is None:
        raise ConfigError(f"method {settings.method} needs --data: pairs with prompt, chosen and rejected")
    return load_pairs(data, place, method=settings.method, split=split, validation=validation, limit=limit)


def load_prompts(
    data: Data | None,
    reward: Reward,
    data_dir: Path | None = None,
    *,
    split: str | None = None,
    validation: Data | None = None,
    limit: int | None = None,
) -> PreferenceRows:
    """Each prompt once, as a pair without replies; a tenth is held out where ``validation`` names nothing.

    ``data`` is a table with a column ``prompt``, or pairs as :func:`~workbench.data.preferences.read_preferences` finds
    them; without it the prompts are the reward's own (a suite's).

    Raises:
        ConfigError: no data, and a reward that has no prompts.
        DataError: as the readers do, and where there are too few prompts to hold some out.
    """
    if data is None:
        own = getattr(reward, "prompts", None)
        if own is None:
            raise ConfigError(
                f"reward {reward.name} brings no prompts; name a table with a column prompt as --data"
            )
        name, rows = Path(reward.name.rpartition(":")[2]).stem, _each_once(own)
    else:
        name, rows = _read(data, data_dir, split)
    if validation is None:
        train, held_out = split_by_prompt(rows)
    else:
        train, held_out = rows, _read(validation, data_dir, None)[1]
    return PreferenceRows(name, train[:limit], held_out)


def _read(data: Data, data_dir: Path | None, split: str | None) -> tuple[str, tuple[Preference, ...]]:
    """A name, and the prompts."""
    if isinstance(data, str | Path) and is_table(data) and Path(data).exists():
        return table_name(data), _each_once(
            str(row["prompt"]) for _, row in read_table(data, needs=("prompt",))
        )
    found = read_preferences(data, data_dir, split=split)
    turns = {pair.prompt: pair.turns for pair in found.pairs}
    return found.name, tuple(replace(row, turns=turns[row.prompt]) for row in _each_once(turns))


def _each_once(prompts: Iterable[str]) -> tuple[Preference, ...]:
    return tuple(Preference(f"prompt-{n}", prompt, "", "") for n, prompt in enumerate(dict.fromkeys(prompts)))
