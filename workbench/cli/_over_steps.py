"""``--over-steps`` of ``evaluate`` and ``attend``: a table and a figure over the checkpoints of a training run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.terminal import say, say_json, shows_progress

if TYPE_CHECKING:
    import pandas as pd

    from workbench.analysis.survey import SurveySettings
    from workbench.evaluate import EvaluateSettings
    from workbench.figures._view import View
    from workbench.models import LoadedModel
    from workbench.runs import Run
    from workbench.statistics import Statistic

__all__ = ["attend_over_steps", "over_steps"]


def over_steps(model: str, settings: EvaluateSettings, out: Path | None, dtype: str, device: str) -> None:
    """Evaluate every checkpoint; print the table and store it, with the plot, beside the runs."""
    from workbench.cli._tables import table
    from workbench.estimate import printed
    from workbench.evaluate.over_steps import evaluate_over_steps

    frame = evaluate_over_steps(model, settings, out=out, dtype=dtype, device=device, tell=_tell)
    rows = [
        (
            *(row[name] for name in ("step", "task", "metric")),
            *printed(row["value"], row["low"], row["high"], row["undefined"]),
        )
        for row in frame.to_dict("records")
    ]
    say(table(("step", "task", "metric", "value", "95 % low", "95 % high"), rows))
    figure, stored = _store(frame, _plot(frame), _folder(model, out, "over-steps"))
    say(f"\nemergence plot: {figure}; table: {stored}")


def attend_over_steps(
    model: str,
    settings: SurveySettings,
    statistic: str,
    load: Callable[[str], LoadedModel],
    out: Path | None,
    as_json: bool,
) -> None:
    """Measure the heads of every checkpoint, one run each (stored ones are used again), and show one statistic."""
    from workbench.analysis.heads_over_steps import heads_over_steps
    from workbench.figures import statistic_view

    runs: dict[int, Run] = {}

    def tell(step: int, run: Run) -> None:
        runs[step] = run
        if not as_json:
            _tell(step, run)

    found = heads_over_steps(
        model, settings, statistic, out=out, progress=shows_progress(), load=load, tell=tell
    )
    name = f"{statistic.replace(' ', '-').replace('/', '-')}-over-steps"
    frame = found.to_frame()
    figure, stored = _store(frame, statistic_view(found), _folder(model, out, name))
    if as_json:
        said = {
            "runs": {step: str(run.path) for step, run in runs.items()},
            "figure": figure,
            "table": stored,
        }
        say_json({**said, "statistic": statistic, "unit": found.unit, "values": frame.to_dict("records")})
    else:
        say(f"{_heads_text(found)}\n\nfigure: {figure}; every head: {stored}")


def _heads_text(statistic: Statistic) -> str:
    """The mean over heads by step and layer, and the head that changed most."""
    from workbench.cli._tables import table

    steps, layers = (statistic.labels[axis] for axis in ("step", "layer"))
    rows = [
        (str(step), *(f"{value:.4f}" for value in values.mean(-1)))
        for step, values in zip(steps, statistic.values, strict=True)
    ]
    moved = statistic.values.max(0) - statistic.values.min(0)
    layer, head = divmod(int(moved.argmax()), moved.shape[1])
    line = statistic.values[:, layer, head]
    return (
        f"{statistic.name} ({statistic.unit}), mean over the heads of a layer\n\n"
        f"{table(('step', *(f'layer {n}' for n in layers)), rows)}\n"
        f"most changed: head {layer}-{head}, between {line.min():.4f} and {line.max():.4f}"
    )


def _tell(step: int, run: Any) -> None:
    say(f"step {step}: {run.path}", error=True)


def _folder(model: str, out: Path | None, name: str) -> Path:
    """Path and stem of what is stored beside the runs."""
    from workbench.runs import default_root

    return (out or default_root()) / f"{Path(model.split('@')[0]).name}-{name}"


def _store(frame: pd.DataFrame, view: View, stem: Path) -> tuple[str, str]:
    """Write the figure and the table; their paths."""
    frame.to_csv(stem.with_name(f"{stem.name}.csv"), index=False)
    view.save(stem.with_name(f"{stem.name}.html"))
    return f"{stem}.html", f"{stem}.csv"


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
