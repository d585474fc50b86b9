"""The figures of a run, drawn from what it stored; a picture that cannot be drawn is left out, not faked."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from workbench.errors import WorkbenchError
from workbench.estimate import Estimate
from workbench.figures.comparison import forest_plot, preference_plot
from workbench.figures.plots import Curve, curve_plot
from workbench.figures.static import rendered
from workbench.report._sections import visible
from workbench.runs import Run

__all__ = ["Picture", "picture_of", "pictures", "results_picture"]

_MOST_STORED = 12


@dataclass(frozen=True)
class Picture:
    """A figure as a data address, with its title and what a reader should know of it."""

    title: str
    source: str  # data:image/…
    caption: str = ""


def picture_of(title: str, content: bytes, caption: str = "", form: str = "svg+xml") -> Picture:
    """A picture from the bytes of an SVG (as an image, so that nothing in it runs) or of a PNG."""
    source = f"data:image/{form};base64,{base64.b64encode(content).decode()}"
    return Picture(visible(title), source, visible(caption))


def pictures(run: Run) -> list[Picture]:
    """Figures that the run's verb calls for, then those stored in its ``figures/``."""
    drawers: dict[str, Callable[[Run], list[Picture]]] = {
        "attend": _survey,
        "compare": _preferences,
        "probe": _layers,
        "train": _losses,
        "finetune": _losses,
        "vote": _preferences,
    }
    drawer = drawers.get(run.record.verb, lambda run: results_picture([run]))
    return [*(drawer(run) if run.complete else []), *_stored(run)]


def results_picture(runs: list[Run]) -> list[Picture]:
    """For each metric with at least three values, all of them as points with their intervals.

    Of several runs, only metrics that at least two of them have.
    """
    by_metric: dict[str, list[tuple[str, str, Estimate]]] = {}
    for run in runs:
        name = str(run.record.model.get("name", run.record.verb))
        for task, metrics in run.results.items():
            for metric, estimate in metrics.items():
                label = f"{task}, {name}" if len(runs) > 1 else task
                by_metric.setdefault(metric, []).append((visible(label), name, estimate))
    return [
        picture_of(metric, rendered(partial(forest_plot, rows, unit=metric, title=metric), "svg"), _INTERVALS)
        for metric, rows in by_metric.items()
        if sum(r[2].value == r[2].value for r in rows) >= 3
        and (len(runs) == 1 or sum(any(metric in m for m in run.results.values()) for run in runs) > 1)
    ][:_MOST_STORED]


_INTERVALS = "Points are the values, lines their intervals."


def _layers(run: Run) -> list[Picture]:
    from probes import open_report

    try:
        report = open_report(run)
    except WorkbenchError:
        return []
    view, words = report.figure(), " ".join(report.conclusions)
    return [picture_of(view.title, rendered(view.draw, "svg"), f"Bands are 95 % intervals. {words}")]


def _preferences(run: Run) -> list[Picture]:
    from workbench.evaluate.preferences import preferences_of

    try:
        found = preferences_of(run)
        view = preference_plot(found)
    except WorkbenchError:  # replies alone
        return results_picture([run])
    drawing = picture_of(view.title, rendered(view.draw, "svg"), " ".join(f"{v}." for v in found.verdicts))
    return [drawing, *results_picture([run])]


def _survey(run: Run) -> list[Picture]:
    from workbench.figures.stored import survey_figures

    views = survey_figures(run)
    return [picture_of(view.title, rendered(view.draw, "svg")) for view in views.values()]


def _losses(run: Run) -> list[Picture]:
    from workbench.training.progress import read_log

    log = run.path / "log.jsonl"
    if not log.is_file():
        return []
    rows = read_log(log)
    curves = []
    for name, key in (("training loss", "loss"), ("validation loss", "eval_loss")):
        points = [(float(row["step"]), float(row[key])) for row in rows if key in row and "step" in row]
        if len(points) > 1:
            curves.append(Curve(name=name, x=[p[0] for p in points], y=[p[1] for p in points]))
    if not curves:
        return []
    view = curve_plot(curves, x="step", y="loss (nats a token)", title="Loss over steps")
    return [picture_of(view.title, rendered(view.draw, "svg"))]


def _stored(run: Run) -> Iterator[Picture]:
    """SVG and PNG files of the run's folder; links are not followed."""
    folder = run.path / "figures"
    if not folder.is_dir():
        return
    files = sorted(p for p in folder.iterdir() if p.suffix in _FORMS and p.is_file() and not p.is_symlink())
    for path in files[:_MOST_STORED]:
        if path.stem != "log_probability_by_length" and path.stat().st_size < 4 << 20:
            yield picture_of(path.stem.replace("_", " "), path.read_bytes(), form=_FORMS[path.suffix])


_FORMS = {".svg": "svg+xml", ".png": "png"}
