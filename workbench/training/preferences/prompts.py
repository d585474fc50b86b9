"""Prompts to write replies to: from a table, from pairs, or those that a reward brings with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workbench.data.preferences import read_preferences, split_by_prompt
from workbench.data.rows import Preference
from workbench.data.tables import is_table, read_table, table_name
from workbench.errors import ConfigError, DataError
from workbench.scoring import Reward
from workbench.terminal import counted
from workbench.training.preferences.pairs import PairRows

__all__ = ["load_prompts"]


def load_prompts(
    data: str | Path | None,
    reward: Reward,
    *,
    validation: str | Path | None = None,
    limit: int | None = None,
    seed: int = 0,
) -> PairRows:
    """Each prompt once, as a pair without replies; a tenth is held out where ``validation`` names nothing.

    ``data`` is a table with a column ``prompt``, or pairs as :func:`~workbench.data.preferences.read_preferences` finds
    them; without it the prompts are the reward's own (a suite's).

    Raises:
        ConfigError: no data, and a reward that has no prompts.
        DataError: as the readers do, and where too few prompts are left to hold some out.
    """
    if data is None:
        own = getattr(reward, "prompts", None)
        if own is None:
            raise ConfigError(
                f"reward {reward.name} brings no prompts; name a table with a column prompt as --data"
            )
        prompts, name = list(own), reward.name.rpartition(":")[2]
    else:
        prompts, name = _read(data), table_name(data)
    train, held_out = _split(prompts, seed) if validation is None else (prompts, _read(validation))
    return PairRows(Path(name).stem, _rows(train[:limit], "train"), _rows(held_out, "held-out"))


def _read(data: str | Path) -> list[str]:
    """The prompts, each once, in order."""
    if is_table(data) and Path(data).exists():
        found = [str(row["prompt"]) for _, row in read_table(data, needs=("prompt",))]
    else:
        found = [pair.prompt for pair in read_preferences(data).pairs]
    prompts = list(dict.fromkeys(found))
    if not prompts:
        raise DataError(f"{data} has no prompt; it needs a column prompt")
    return prompts


def _split(prompts: Sequence[str], seed: int) -> tuple[list[str], list[str]]:
    if len(prompts) < 2:
        raise DataError(f"{counted(len(prompts), 'prompt')}: two at least are needed to hold one out")
    train, held_out = split_by_prompt(_rows(prompts, "all"), 0.1, seed)
    return [row.prompt for row in train], [row.prompt for row in held_out]


def _rows(prompts: Sequence[str], part: str) -> tuple[Any, ...]:
    return tuple(Preference(f"{part}-{n}", prompt, "", "") for n, prompt in enumerate(prompts))
