"""Several reward models of one run: their mean, and how far they differ as a measure of what they do not know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from workbench.errors import RunError
from workbench.runs import Run, find_run
from workbench.scoring.rewards import ModelReward
from workbench.shapes import Array
from workbench.statistics import proportion
from workbench.training.preferences.job import Measured

__all__ = ["MEMBERS", "EnsembleReward", "ensemble_reward", "joined"]

MEMBERS = "members"  # the folder of the models of all seeds but the first, in a run of several


@dataclass(frozen=True)
class EnsembleReward:
    """The mean reward of several models minus ``penalty`` times their variance (Coste et al. 2023).

    The training leaves the height of a model's rewards open, so they are taken relative to ``zeros``, each model's mean
    over the replies held out.

    Example:
        ```python
        from workbench.scoring import PythonReward
        from workbench.training.preferences.ensemble import EnsembleReward

        members = [PythonReward(lambda prompts, replies, k=k: [k * len(reply) for reply in replies]) for k in (1, 3)]
        print(EnsembleReward("lengths", tuple(members), (0.0, 0.0)).spread([""], ["four"]))
        ```
    """

    name: str
    members: tuple[Any, ...]
    zeros: tuple[float, ...]
    penalty: float = 0.0

    def __call__(self, prompts: Sequence[str], replies: Sequence[str]) -> list[float]:
        """The ensemble's reward of each reply."""
        rewards = self.rewards(prompts, replies)
        found: list[float] = (rewards.mean(0) - self.penalty * rewards.var(0, ddof=1)).tolist()
        return found

    def rewards(self, prompts: Sequence[str], replies: Sequence[str]) -> Array:
        """The reward of each model (model, reply)."""
        found = [
            np.array(member(prompts, replies)) - zero
            for member, zero in zip(self.members, self.zeros, strict=True)
        ]
        return np.stack(found)

    def spread(self, prompts: Sequence[str], replies: Sequence[str]) -> list[float]:
        """The standard deviation of each reply's reward over the models."""
        found: list[float] = self.rewards(prompts, replies).std(0, ddof=1).tolist()
        return found


def ensemble_reward(run: str | Path | Run, penalty: float = 0.0) -> EnsembleReward:
    """The models of all seeds of a run of ``workbench align --method reward``: ``--reward ensemble:RUN``.

    Raises :class:`~workbench.errors.RunError` for a run of another kind, or of one seed.

    Example:
        ```python
        import workbench
        from workbench.training.preferences.ensemble import ensemble_reward

        rows = [{"prompt": f"He had {n} dogs", "chosen": " and was happy.", "rejected": "."} for n in range(12)]
        workbench.align("novels-encoder", rows, "rewards", method="reward", seeds=(0, 1))
        print(ensemble_reward("rewards").spread(["He had a cat"], [" and was sad."]))
        ```
    """
    opened = run if isinstance(run, Run) else Run.open(find_run(run))
    folders = [opened.path, *sorted((opened.path / MEMBERS).glob("seed-*"))]
    if opened.record.recipe.get("method") != "reward" or len(folders) < 2:
        raise RunError(
            f"{opened.path} holds no ensemble of reward models; train one by workbench align MODEL --data FILE "
            "--method reward --seeds 0,1,2"
        )
    members = tuple(ModelReward(str(folder)) for folder in folders)
    zeros = tuple(map(float, opened.notes["mean_rewards"]))
    return EnsembleReward(f"ensemble:{opened.path.name}", members, zeros, penalty)


def joined(measured: Sequence[Measured]) -> Measured:
    """What several reward models say together of the pairs held out.

    Each row has the margin of every model, their mean and standard deviation; ``ensemble_accuracy`` is of the mean,
    ``spread_where_wrong`` and ``spread_where_right`` are the mean standard deviations of pairs that the mean gets wrong
    and right.
    """
    scores = np.array(
        [[list(row["scores"].values()) for row in one.rows] for one in measured]
    )  # (model, pair, side)
    margins = scores[..., 0] - scores[..., 1]
    mean, spread = margins.mean(0), margins.std(0, ddof=1)
    further = zip(margins.T.tolist(), mean.tolist(), spread.tolist(), strict=True)
    rows = [
        {**row, "margins": every, "margin": a, "margin_spread": b}
        for row, (every, a, b) in zip(measured[0].rows, further, strict=True)
    ]
    notes: dict[str, Any] = {"mean_rewards": scores.mean((1, 2)).tolist()}
    for name, where in (("right", mean > 0), ("wrong", mean <= 0)):
        if where.any():
            notes[f"spread_where_{name}"] = float(spread[where].mean())
    return Measured({"ensemble_accuracy": proportion((mean > 0).tolist())}, tuple(rows), notes)
