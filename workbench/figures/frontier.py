"""Reward against KL along a training run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.figures._view import View
from workbench.figures.plots import Curve, curve_plot

if TYPE_CHECKING:
    from workbench.training.preferences.frontier import Frontier

__all__ = ["frontier_plot"]


def frontier_plot(frontier: Frontier, *, title: str | None = None, display_mode: str = "auto") -> View:
    """The reward of a policy's replies over their KL to the reference, in order of training; a gold reward beside it.

    Example:
        ```python
        from workbench.training.preferences.frontier import Frontier

        log = [{"step": n, "kl": n / 10, "reward": n / (n + 5), "gold_reward": 0.1} for n in range(40)]
        print(Frontier.of_log(log).figure().save("frontier.html"))
        ```
    """
    table = frontier.to_frame()
    shown = [(frontier.name, "reward"), ("gold reward", "gold_reward")]
    curves = [
        Curve(name=name, x=table["kl"].to_numpy(), y=table[column].to_numpy())
        for name, column in shown
        if column in table
    ]
    return curve_plot(
        curves,
        x="KL to the reference (nats a reply)",
        y="mean reward",
        note="Each point is the mean over a stretch of training steps, joined in their order; KL is estimated by k1.",
        title=title or "Reward against KL",
        display_mode=display_mode,
    )
