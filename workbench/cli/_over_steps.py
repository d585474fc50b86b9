"""``workbench evaluate RUN --over-steps``: a table and an emergence plot over the checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.terminal import say

if TYPE_CHECKING:
    import pandas as pd

    from workbench.evaluate import EvaluateSettings
    from workbench.figures._view import View

__all__ = ["over_steps"]


def over_steps(model: str, settings: EvaluateSettings, out: Path | None, dtype: str, device: str) -> None:
    """Evaluate every checkpoint; print the table and store it, with the plot, beside the runs."""
    from workbench.cli._tables import table
    from workbench.estimate import printed
    from workbench.evaluate.over_steps import evaluate_over_steps
    from workbench.runs import default_root

    def tell(step: int, run: Any) -> None:
        say(f"step {step}: {run.path}", error=True)

    frame = evaluate_over_steps(model, settings, out=out, dtype=dtype, device=device, tell=tell)
    rows = [
        (
            *(row[name] for name in ("step", "task", "metric")),
            *printed(row["value"], row["low"], row["high"], row["undefined"]),
        )
        for row in frame.to_dict("records")
    ]
    say(table(("step", "task", "metric", "value", "95 % low", "95 % high"), rows))
    stem = (out or default_root()) / f"{Path(model.split('@')[0]).name}-over-steps"
    frame.to_csv(stem.with_suffix(".csv"), index=False)
    _plot(frame).save(stem.with_suffix(".html"))
    say(f"\nemergence plot: {stem.with_suffix('.html')}; table: {stem.with_suffix('.csv')}")


def _plot(frame: pd.DataFrame) -> View:
    from workbench.figures import Curve, curve_plot

    bounded = frame[(frame["value"] <= 1.0) & (frame["value"] >= 0.0)]
    shown = bounded if len(bounded) else frame
    curves = [
        Curve(
            name=f"{task} {metric}",
            x=(part["step"] + 1).tolist(),
            y=part["value"].tolist(),
            low=part["low"].tolist(),
            high=part["high"].tolist(),
        )
        for (task, metric), part in shown.groupby(["task", "metric"])
    ]
    return curve_plot(
        curves, x="step + 1", y="value", title="Over training steps", note="bands: 95 % intervals"
    )
