"""What ``workbench compare`` shows: a text, the same as a JSON record, and where there is one a figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from workbench.cli._tables import table
from workbench.errors import RunError
from workbench.estimate import Estimate
from workbench.evaluate.calibration import Calibration, calibration
from workbench.evaluate.compare import Comparison, compare, differences_text, run_differences
from workbench.evaluate.compare_items import run_names, task_examples
from workbench.evaluate.leaderboard import Leaderboard, agreement, leaderboard, only_one_right
from workbench.evaluate.slices import Slice, one_slice, slices, worst_slices
from workbench.runs import Run
from workbench.terminal import counted

__all__ = ["Shown", "agreements", "calibrations", "comparisons", "leaderboards", "sliced"]

_ALONE = 10  # items only one model gets right that the text shows


@dataclass(frozen=True)
class Shown:
    """``draw`` gives a :class:`workbench.figures.View`, if there is one to give."""

    text: str
    record: dict[str, Any]
    draw: Callable[[], Any] | None = None


def comparisons(runs: Sequence[Run], *, task: str | None, metric: str | None, seed: int) -> Shown:
    """Every pair: values, difference with interval, p-values, effect, and the verdict below."""
    found = compare(runs, task=task, metric=metric, seed=seed)
    head = (
        "task",
        "metric",
        "first",
        "second",
        "difference",
        "95 %",
        "test",
        "p",
        "p Holm",
        "p BH",
        "effect",
    )
    lines = [table(head, [_row(c) for c in found]), ""]
    lines += [f"{c.task} {c.metric}, {c.first} and {c.second}: {c.verdict}" for c in found]
    differ = run_differences(runs)
    lines += ["", *_precisions(runs), *differences_text(differ)]

    def draw() -> Any:
        from workbench.figures.comparison import comparison_plot

        return comparison_plot(found)

    return Shown("\n".join(lines), {"comparisons": [c.to_dict() for c in found], "differences": differ}, draw)


def _precisions(runs: Sequence[Run]) -> list[str]:
    """The precision of each run's weights."""
    shown = (
        f"{name}: {run.record.model.get('dtype', 'not stored')}"
        for name, run in zip(run_names(runs), runs, strict=True)
    )
    return [f"precision: {', '.join(shown)}"]


def _row(c: Comparison) -> tuple[str, ...]:
    d = c.difference
    values = [f"{name} {value:.4f}" for name, value in zip((c.first, c.second), c.values, strict=True)]
    p_values = [f"{p:.2g}" for p in (c.p_value, c.p_holm, c.p_bh)]
    effect = f"{c.effect} {c.effect_size:+.2f}"
    return (c.task, c.metric, *values, d.cells(4, "+")[0], d.interval(4, "+"), c.test, *p_values, effect)


def _value_and_ends(estimate: Estimate) -> tuple[str, str, str]:
    value, _, low, high = estimate.cells()
    return value, low, high


def leaderboards(runs: Sequence[Run], *, task: str | None, metric: str | None, seed: int) -> Shown:
    """A table a task and metric; runs of one group are not shown to differ from its first."""
    boards = leaderboard(runs, task=task, metric=metric, seed=seed)
    records = [
        {
            "task": b.task,
            "metric": b.metric,
            "data": b.data,
            "tested": b.tested,
            "rows": [{**asdict(r), "estimate": r.estimate.to_dict()} for r in b.rows],
        }
        for b in boards
    ]
    return Shown("\n\n".join(_board(b) for b in boards), {"leaderboards": records})


def _board(board: Leaderboard) -> str:
    rows = [
        (
            str(r.group),
            r.name,
            *_value_and_ends(r.estimate),
            r.run,
        )
        for r in board.rows
    ]
    tied = (
        "ties: paired tests, Holm at 5 %" if board.tested else "ties: intervals overlap; items not comparable"
    )
    title = f"{board.task} {board.metric}, {counted(board.rows[0].estimate.n, 'item')} ({tied})"
    return title + "\n" + table(("group", "model", "value", "95 % low", "95 % high", "run"), rows)


def agreements(runs: Sequence[Run], *, task: str | None, metric: str | None, seed: int) -> Shown:
    """The matrix of pairs, and the first items that only one run gets right."""
    task, metric = _one_task(runs, task), metric or "accuracy"
    shares, kappas = (agreement(runs, task, metric, kappa=kappa) for kappa in (False, True))
    alone = only_one_right(runs, task, metric)
    names = run_names(runs)
    rows = [
        (name, *(f"{shares.values[i, j]:.3f} ({kappas.values[i, j]:.2f})" for j in range(len(names))))
        for i, name in enumerate(names)
    ]
    lines = [f"{task}: share of items on which two runs are right or wrong together (Cohen's kappa)"]
    lines += [table(("", *names), rows), "", f"{counted(len(alone), 'item')} that one run alone gets right:"]
    lines += [f"  {row['model']}: {row['id']}" for _, row in alone.head(_ALONE).iterrows()]
    record = {
        **{"task": task, "metric": metric, "runs": list(names)},
        **{"agreement": shares.values.tolist(), "kappa": kappas.values.tolist()},
        "only_one_right": [{"model": row["model"], "id": row["id"]} for _, row in alone.iterrows()],
    }

    def draw() -> Any:
        from workbench.figures import heat_map

        return heat_map(
            shares.values, names, names, axes=("run", "other"), unit=shares.unit, title=shares.name
        )

    return Shown("\n".join(lines), record, draw)


def sliced(
    runs: Sequence[Run],
    *,
    by: str | None,
    chosen: str | None,
    task: str | None,
    metric: str | None,
    seed: int,
) -> Shown:
    """Each run's worst slices, all slices by one feature, or one slice."""
    task, metric = _one_task(runs, task), metric or "accuracy"
    found: dict[str, tuple[Slice, ...]] = {}
    for name, run in zip(run_names(runs), runs, strict=True):
        if chosen is not None:
            found[name] = (one_slice(run, task, metric, chosen, seed=seed),)
        elif by is not None:
            found[name] = slices(run, task, metric, by=by, seed=seed)
        else:
            found[name] = worst_slices(run, task, metric, seed=seed)
    record = {name: [{**s.to_frame_row()} for s in parts] for name, parts in found.items()}
    texts = [f"{name}, {task} {metric}\n{_slices(parts)}" for name, parts in found.items()]
    return Shown("\n\n".join(texts), {"task": task, "metric": metric, "slices": record})


def _slices(parts: Sequence[Slice]) -> str:
    if not parts:
        return "no slice of 20 items or more is worse than the rest"
    head = ("slice", "n", "value", "95 % low", "95 % high", "against the rest", "p")
    rows = []
    for s in parts:
        p = f"{s.p_value:.3f}" if s.p_value == s.p_value else None
        rows.append((s.name, s.n, *_value_and_ends(s.estimate), f"{s.difference:+.4f}", p))
    return table(head, rows)


def calibrations(runs: Sequence[Run], *, task: str | None, seed: int) -> Shown:
    """Calibration error and Brier score of each run, and its bins."""
    task = _one_task(runs, task)
    found = {name: calibration(run, task, seed=seed) for name, run in zip(run_names(runs), runs, strict=True)}
    rows = [
        (
            name,
            f"{c.accuracy:.4f}",
            f"{c.confidence:.4f}",
            f"{c.expected_error.value:.4f}",
            f"{c.by_chance[0]:.4f} (95 %: {c.by_chance[1]:.4f})",
            str(c.debiased_error),
            str(c.brier),
            _scaling(c),
        )
        for name, c in found.items()
    ]
    head = ("model", "accuracy", "confidence", "expected calibration error", "by chance", "debiased error")
    text = table((*head, "Brier score", "error after temperature scaling"), rows)

    def draw() -> Any:
        from workbench.figures.comparison import reliability_diagram

        return reliability_diagram(found)

    return Shown(
        f"{task}\n{text}", {"task": task, "calibration": {k: asdict(c) for k, c in found.items()}}, draw
    )


def _scaling(found: Calibration) -> str:
    """The expected error with temperatures fitted on the other half of the items."""
    if found.scaled is None:
        return "undefined (one item has no second half)"
    first, second = found.scaled.temperatures
    return f"{found.scaled.expected_error:.4f} (T = {first:.2f} and {second:.2f}, each from the other half)"


def _one_task(runs: Sequence[Run], task: str | None) -> str:
    if not runs:
        raise RunError("name the RUNs; list them with: workbench runs")
    shared = [name for name in runs[0].results if all(name in run.results for run in runs)]
    if task is None and len(shared) != 1:
        raise RunError(f"choose one --task of {', '.join(shared) or 'none that the runs share'}")
    chosen = task or shared[0]
    for run in runs:
        task_examples(run, chosen)
    return chosen
