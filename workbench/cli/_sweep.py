"""What ``workbench sweep`` adds to the losses: scores on tasks, and power laws with their plot."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from workbench.evaluate import EvaluateSettings
    from workbench.training.sweep import PowerLaw, SweepRow

__all__ = ["draw_laws", "scored", "task_settings"]


def task_settings(tasks: str | None, data_dir: Path | None, limit: int | None) -> EvaluateSettings | None:
    """What to evaluate; raises :class:`~workbench.errors.TaskError` for an unknown task, ``None`` for no task."""
    if not tasks:
        return None
    from workbench.evaluate import EvaluateSettings, read_data

    names = tuple(name.strip() for name in tasks.split(",") if name.strip())
    settings = EvaluateSettings(
        tasks=names, data_dir=None if data_dir is None else str(data_dir), limit=limit
    )
    read_data(settings)
    return settings


def scored(row: SweepRow, settings: EvaluateSettings, out: Path, device: str) -> SweepRow:
    """The row with each metric of each task, mean over its runs; the evaluations are runs in ``out/evaluations``."""
    from workbench.evaluate import evaluate
    from workbench.models import load

    found: dict[str, list[float]] = {}
    for path in row.runs:
        model = load(path, device=device)
        run = evaluate(model, settings, out=out / "evaluations", doctor=False)
        for task, metrics in run.results.items():
            for metric, estimate in metrics.items():
                found.setdefault(f"{task} {metric}", []).append(estimate.value)
    return replace(row, scores={name: float(np.mean(values)) for name, values in found.items()})


def draw_laws(rows: list[SweepRow], out: Path) -> list[str]:
    """L(N) and L(D), where enough different sizes were trained: a line each, and a plot in ``out``."""
    from workbench.errors import NumericsError
    from workbench.training.sweep import fit_power_law

    lines = []
    done = [row for row in rows if row.final_loss is not None]
    losses = [float(row.final_loss or 0) for row in done]
    for name, symbol in (("parameters", "N"), ("tokens", "D")):
        sizes = [float(getattr(row, name)) for row in done]
        if len(set(sizes)) < 3:
            continue
        try:
            law = fit_power_law(sizes, losses, unit=name)
        except NumericsError:
            continue
        a, file = law.exponent, out / f"power-law-{name}.html"
        _plot(law, sizes, losses, name, file)
        lines.append(f"L({symbol}) = ({law.scale:.3g} / {symbol})^{a.text(3)}, {name}; {file}")
    return lines


def _plot(law: PowerLaw, sizes: list[float], losses: list[float], unit: str, file: Path) -> None:
    """Both axes are logarithms, where the law is a straight line; Kaplan et al. 2020, figure 1."""
    from workbench.figures import Curve, curve_plot

    order = np.argsort(sizes)
    x, y = np.asarray(sizes)[order], np.asarray(losses)[order]
    curves = [
        Curve(name="trained", x=np.log10(x).tolist(), y=np.log10(y).tolist()),
        Curve(name="fit", x=np.log10(x).tolist(), y=np.log10(law(x)).tolist()),
    ]
    a = law.exponent
    note = f"exponent {a.cells(3)[0]}, 95 % interval {a.interval(3)} over resampled points"
    view = curve_plot(curves, x=f"log10 {unit}", y="log10 loss", title=f"Loss and {unit}", note=note)
    view.save(file)
