"""Who decides between replies: a reward that rates each of them, or a judge that reads two beside one another."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Protocol, TypeAlias

from workbench.data.dialogues import turns_of
from workbench.data.rows import Preference
from workbench.errors import ConfigError, WorkbenchWarning, did_you_mean
from workbench.evaluate.judge import judged_margins
from workbench.models import LoadedModel, as_model
from workbench.scoring.rewards import CheckedReward, Reward, find_reward, reward_kinds

__all__ = ["Chooser", "JudgeChooser", "RewardChooser", "Scores", "find_chooser"]

Scores: TypeAlias = "dict[tuple[str, str], list[tuple[float, float]]]"
"""For each two models, both replies' scores for each prompt: the higher one is preferred, equal ones are a tie."""


class Chooser(Protocol):
    """Scores replies; ``name`` is what the run stores of it."""

    @property
    def name(self) -> str:
        """What it is called in runs and tables."""

    def __call__(self, prompts: Sequence[str], replies: Mapping[str, Sequence[str]]) -> Scores:
        """Scores of every two of the models, whose replies are given by name, one for each prompt."""


class RewardChooser:
    """Prefers the reply with the higher reward; each reply is rated once, whatever it is compared with.

    Raises :class:`~workbench.errors.NumericsError` for a reward that is not finite.
    """

    def __init__(self, reward: Reward) -> None:
        self.reward = CheckedReward(reward)

    @property
    def name(self) -> str:
        """The reward's."""
        return self.reward.name

    def __call__(self, prompts: Sequence[str], replies: Mapping[str, Sequence[str]]) -> Scores:
        """See :class:`Chooser`."""
        with warnings.catch_warnings():  # that nothing is learned from equal rewards: here they are ties
            warnings.simplefilter("ignore", WorkbenchWarning)
            rated = {name: self.reward(prompts, texts) for name, texts in replies.items()}
        return {(a, b): list(zip(rated[a], rated[b], strict=True)) for a, b in combinations(rated, 2)}


class JudgeChooser:
    """A language model that reads two replies beside one another, in both orders (:mod:`~workbench.evaluate.judge`).

    A reply's score is half the log-odds that it is the better one, so that the other's is its negative.
    """

    def __init__(self, model: LoadedModel | str) -> None:
        self.model = as_model(model)

    @property
    def name(self) -> str:
        """``judge:MODEL``."""
        return f"judge:{self.model.name}"

    def __call__(self, prompts: Sequence[str], replies: Mapping[str, Sequence[str]]) -> Scores:
        """See :class:`Chooser`; equal replies are ties."""
        return {(a, b): self._judged(prompts, replies[a], replies[b]) for a, b in combinations(replies, 2)}

    def _judged(
        self, prompts: Sequence[str], first: Sequence[str], second: Sequence[str]
    ) -> list[tuple[float, float]]:
        texts = list(zip(prompts, first, second, strict=True))
        pairs = [Preference(f"{number}", *each, None, turns_of(each[0])) for number, each in enumerate(texts)]
        asked = [pair for pair in pairs if pair.chosen.strip() != pair.rejected.strip()]
        margins = {pair.id: m for pair, m in zip(asked, judged_margins(self.model, asked), strict=True)}
        halves = [margins.get(pair.id, 0.0) / 2 for pair in pairs]
        return [(half, -half) for half in halves]


def find_chooser(by: str | Reward | Chooser) -> Chooser:
    """What ``by`` names: a reward (:func:`~workbench.scoring.find_reward`), or ``judge:MODEL``; itself if it is one.

    Raises :class:`~workbench.errors.ConfigError` for anything else, with what is allowed.
    """
    if isinstance(by, RewardChooser | JudgeChooser):
        return by
    if not isinstance(by, str):
        return RewardChooser(by)  # type: ignore[arg-type]  # both protocols look alike
    kind = by.partition(":")[0]
    if kind == "judge":
        if not by.removeprefix("judge").strip(":"):
            raise ConfigError(f"--by {by!r} names no judge; write judge:MODEL, a model that predicts text")
        return JudgeChooser(by.removeprefix("judge:"))
    allowed = [*reward_kinds(), "judge", "votes"]
    if kind not in allowed:
        listed = ", ".join(f"{name}:…" for name in allowed)
        raise ConfigError(f"--by {by!r:.80} ({did_you_mean(kind, allowed)}); allowed: {listed}")
    return RewardChooser(find_reward(by))
