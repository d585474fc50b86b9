"""``workbench sweep``: train variants on the same data and budget, and compare them in a table."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from workbench.cli._shared import COUNT, PATH, SEEDS
from workbench.cli.train import recipe_options, settings_from
from workbench.errors import ConfigError
from workbench.paths import check_folder
from workbench.terminal import say, say_json

if TYPE_CHECKING:
    from workbench.evaluate import EvaluateSettings
    from workbench.training.sweep import PowerLaw, SweepRow

__all__ = ["command", "draw_laws", "scored", "task_settings"]


@click.command("sweep")
@recipe_options
@click.option(
    "--vary",
    "variations",
    multiple=True,
    help="positions=learned,rope; form=full,performer; width=64,128; tokens=1e5,…",
)
@click.option(
    "--modifications",
    "modified",
    help="One change at a time, by name, such as base,rezero,swiglu,performer; or all.",
)
@click.option("--seeds", type=SEEDS, default="0", show_default=True, help="One or more, separated by commas.")
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, mps.")
@click.option("--task", "tasks", help="Evaluate each model on these tasks too; see: workbench tasks.")
@click.option("--data-dir", type=PATH, help="Folder with the tasks' data files.")
@click.option("--limit", type=COUNT, help="Only the first N items of each task.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON list and nothing else.")
@click.option("--out", type=PATH, required=True, help="Folder of the runs.")
def command(
    variations: tuple[str, ...],
    modified: str | None,
    seeds: tuple[int, ...],
    device: str,
    tasks: str | None,
    data_dir: Path | None,
    limit: int | None,
    as_json: bool,
    out: Path,
    **options: Any,
) -> None:
    """Train every combination of the varied fields with the same data, seeds and budget.

    \b
    workbench sweep --preset llama-tiny --corpus input.txt --steps 300 \\
      --vary positions=learned,sinusoidal,alibi,rope,t5 --out runs/positions

    --modifications makes changes known from papers to the same base, one at a time. A sweep over width, layers or
    tokens also fits the power law of loss and size.
    """
    from workbench.training.modifications import choose_modifications
    from workbench.training.sweep import parse_variations, store_rows, sweep

    if not variations and modified is None:
        raise ConfigError("nothing to compare: give --vary field=value,value, or --modifications all")

    judged = task_settings(tasks, data_dir, limit)  # unknown tasks are reported before anything is trained
    chosen = parse_variations(variations)
    modifications = choose_modifications(modified) if modified is not None else {}
    base = settings_from({**options, "report_to": options.get("report_to") or "none"})
    check_folder(out)

    def tell(row: SweepRow) -> None:
        loss = f"final loss {row.final_loss:.4f}" if row.final_loss is not None else row.problem
        say(f"{row.variant}: {loss}", error=True)

    rows = sweep(base, chosen, out, modifications=modifications, seeds=seeds, device=device, tell=tell)
    if judged is not None:
        rows = [scored(row, judged, out, device) for row in rows]
        store_rows(rows, out)
    if as_json:
        say_json([asdict(row) for row in rows])
        return
    say(_table(rows))
    if chosen and all(variation.field in _SIZES for variation in chosen):
        for line in draw_laws(rows, out):
            say(line)
    for row in rows:
        if row.problem:
            say(f"{row.variant} was not trained: {row.problem}")


# fields whose variation makes a scaling law
_SIZES = {"width", "hidden_size", "layers", "depth.layers", "feed_forward.size", "tokens"}


def _table(rows: list[SweepRow]) -> str:
    from workbench.cli._tables import table
    from workbench.training.sweep import ranked

    names = sorted({name for row in rows for name in row.scores})
    shown = [
        (
            row.variant,
            _millions(row.parameters),
            _millions(row.flops_per_token),
            _rounded(row.steps_per_second, 2),
            _rounded(row.early_loss, 3),
            _rounded(row.final_loss, 3),
            _rounded(row.final_loss_sd, 3),
            *(f"{row.scores[name]:.4g}" for name in names),
        )
        for row in ranked(rows)
    ]
    head = (
        "variant",
        "parameters (M)",
        "MFLOPs/token",
        "steps/s",
        "early loss",
        "final loss",
        "sd over seeds",
        *names,
    )
    return table(head, shown) if shown else "no variant could be trained"


def _millions(value: float | None) -> str:
    return "-" if value is None else f"{value / 1e6:.2f}"


def _rounded(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


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
