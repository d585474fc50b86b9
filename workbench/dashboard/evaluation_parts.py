"""The parts of the page Evaluation that compare runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import streamlit as st

from workbench.dashboard.show import plain, show_table, show_view, theme
from workbench.dashboard.store import LARGEST, folder_bytes
from workbench.errors import RunError
from workbench.figures.frames import table_view
from workbench.runs import Run, RunSummary

if TYPE_CHECKING:
    from workbench.evaluate.compare import Comparison

__all__ = ["calibration_part", "choose_metric", "compare_part", "leaderboard_part", "one_run", "slices_part"]

_MOST = 12  # runs of one leaderboard: each pair is tested
_CODE = "from workbench.runs import Run\n\n"


def choose_metric(runs: Sequence[RunSummary]) -> tuple[str, str]:
    """The task and the metric to look at, among those that the runs have."""
    with st.container(horizontal=True):
        tasks = list(dict.fromkeys(task for run in runs for task in run.results))
        task = st.selectbox("Task", tasks, key="task", bind="query-params", persist_state="session")
        metrics = list(dict.fromkeys(m for run in runs for m in run.results.get(task, {})))
        metric = st.selectbox("Metric", metrics, key="metric", bind="query-params", persist_state="session")
    return task, metric


def _opened(paths: Sequence[str]) -> list[Run]:
    """The runs that a page can read whole; larger ones are named and left out."""
    found = []
    for path in paths:
        if folder_bytes(Path(path)) > LARGEST:
            st.warning(f"{plain(Path(path).name)} is too large for this page; use `workbench compare`.")
        else:
            found.append(Run.open(path))
    return found


def _stamp(runs: Sequence[RunSummary]) -> tuple[tuple[str, float], ...]:
    """Paths and times of change: what a cached comparison depends on."""
    stamps = []
    for run in runs:
        try:
            stamps.append((str(run.path), (run.path / "results.json").stat().st_mtime))
        except OSError as error:
            raise RunError(f"{run.path.name} was deleted meanwhile; choose another run") from error
    return tuple(stamps)


@st.cache_resource(max_entries=64, ttl=3600, show_spinner="Comparing runs …")
def _cached(what: str, _make: Callable[[], Any], key: tuple[Any, ...]) -> Any:
    """The result of ``_make``, kept under ``what`` and ``key``."""
    return _make()


def leaderboard_part(runs: Sequence[RunSummary]) -> None:
    """All runs of a task, best first, those that no test tells apart in one group."""
    from workbench.evaluate.leaderboard import Leaderboard, leaderboard

    task, metric = choose_metric(runs)
    members = [run for run in runs if metric in run.results.get(task, {})]
    if len(members) > _MOST:
        st.caption(f"The newest {_MOST} of {len(members)} runs.")
    opened = _opened([str(run.path) for run in members[:_MOST]])
    key = (task, metric, _stamp(members[:_MOST]))
    boards: tuple[Leaderboard, ...] = _cached(
        "leaderboard", lambda: leaderboard(opened, task=task, metric=metric), key
    )
    code = (
        f"from workbench.evaluate.leaderboard import leaderboard\n{_CODE}"
        f"runs = [Run.open(path) for path in {[str(run.path) for run in opened]!r}]\n"
        f"leaderboard(runs, task={task!r}, metric={metric!r})\n"
    )
    for number, board in enumerate(boards):
        frame = board.to_frame()
        how = (
            "paired tests with Holm's correction"
            if board.tested
            else "overlap of intervals: items are not stored alike"
        )
        note = (
            f"Runs of one group are tied: no difference is shown between them and the group's first ({how})."
        )
        view = table_view(
            frame,
            interval=("value", "low", "high"),
            note=note,
            title=f"{task}: {metric}, n = {board.rows[0].estimate.n:,}",
            display_mode=theme(),
        )
        show_view(view, f"leaderboard {number}", code)


def compare_part(runs: Sequence[RunSummary]) -> None:
    """Two runs on the same items: test, interval, verdict, and the items that one alone gets right."""
    from workbench.evaluate.compare import compare, differences_text, run_differences

    names = [run.id for run in runs]
    with st.container(horizontal=True):
        first = st.selectbox("First run", names, key="first", bind="query-params")
        others = [name for name in names if name != first]
        if not others:
            st.info("Comparing needs two finished runs.")
            return
        second = st.selectbox("Second run", others, key="versus", bind="query-params")
    chosen = [run for name in (first, second) for run in runs if run.id == name]
    pair = _opened([str(run.path) for run in chosen])
    if len(pair) < 2:
        return
    found: tuple[Comparison, ...] = _cached("compare", lambda: compare(pair), (_stamp(chosen),))
    code = (
        f"from workbench.evaluate.compare import compare\n{_CODE}"
        f"pair = [Run.open(path) for path in {[str(run.path) for run in pair]!r}]\ncompare(pair)\n"
    )
    frame = pd.DataFrame([_row(comparison) for comparison in found])
    note = f"First minus second. First: {found[0].first}. Second: {found[0].second}."
    view = table_view(
        frame,
        interval=("difference", "low", "high"),
        centred=True,
        note=note,
        title="Paired differences",
        display_mode=theme(),
    )
    show_view(view, "comparison", code)
    for comparison in found[:20]:
        st.markdown(f"- **{plain(comparison.task)} {plain(comparison.metric)}**: {plain(comparison.verdict)}")
    for line in differences_text(run_differences(pair)):
        st.caption(plain(line))
    _alone(pair, found)


def _row(c: Comparison) -> dict[str, Any]:
    d = c.difference
    values = {"task": c.task, "metric": c.metric, "first": c.values[0], "second": c.values[1]}
    return {
        **values,
        "difference": d.value,
        "low": d.low,
        "high": d.high,
        "n": c.n,
        "test": c.test,
        "p (Holm)": c.p_holm,
        "undefined": d.undefined or "",
    }


def _alone(pair: Sequence[Run], found: Sequence[Comparison]) -> None:
    """The items that one run alone gets right, where items are right or wrong."""
    from workbench.evaluate.leaderboard import only_one_right

    counted = [c for c in found if c.counts is not None]
    if not counted:
        return
    names = [f"{c.task} {c.metric}" for c in counted]
    chosen = counted[names.index(st.selectbox("Items that one alone gets right", names, key="alone"))]
    both, first, second, neither = chosen.counts or (0, 0, 0, 0)
    st.caption(f"Both right {both:,}, first alone {first:,}, second alone {second:,}, neither {neither:,}.")
    table = only_one_right(pair, chosen.task, chosen.metric)
    code = (
        f"from workbench.evaluate.leaderboard import only_one_right\n{_CODE}"
        f"pair = [Run.open(path) for path in {[str(run.path) for run in pair]!r}]\n"
        f"only_one_right(pair, {chosen.task!r}, {chosen.metric!r})\n"
    )
    if len(table):
        show_table(table.head(500), "alone", "Items that one alone gets right", code)


def one_run(runs: Sequence[RunSummary]) -> tuple[Run, RunSummary] | None:
    """A run chosen by its name, opened; ``None`` where it is too large."""
    name = st.selectbox(
        "Run", [run.id for run in runs], key="evaluated", bind="query-params", persist_state="session"
    )
    summary = next(run for run in runs if run.id == name)
    opened = _opened([str(summary.path)])
    return (opened[0], summary) if opened else None


def slices_part(runs: Sequence[RunSummary]) -> None:
    """Where a run is worse than elsewhere, corrected for the search."""
    from workbench.evaluate.slices import slices, worst_slices

    found = one_run(runs)
    if found is None:
        return
    run, summary = found
    task, metric = choose_metric([summary])
    key = (task, metric, _stamp([summary]))
    code = (
        "from workbench.evaluate.slices import slices, worst_slices\n"
        f"{_CODE}run = Run.open({str(run.path)!r})\n"
    )
    worst = _cached("worst slices", lambda: worst_slices(run, task, metric).to_frame(), key)
    title = "The worst slices, of one feature or two"
    _slices_table(worst, title, f"{code}worst_slices(run, {task!r}, {metric!r}).to_frame()\n")
    every = _cached("slices", lambda: slices(run, task, metric).to_frame(), key)
    _slices_table(
        every, "Every slice by one feature", f"{code}slices(run, {task!r}, {metric!r}).to_frame()\n"
    )


def _slices_table(table: pd.DataFrame, title: str, code: str) -> None:
    if table.empty:
        st.info(f"{title}: none stands out.")
        return
    view = table_view(
        table,
        interval=("value", "low", "high"),
        note="p is corrected for all slices that were looked at.",
        title=title,
        display_mode=theme(),
    )
    show_view(view, title, code)


def calibration_part(runs: Sequence[RunSummary]) -> None:
    """Whether a model is right as often as it says."""
    from workbench.evaluate.calibration import calibration
    from workbench.figures.comparison import reliability_diagram

    found = one_run(runs)
    if found is None:
        return
    run, summary = found
    task = st.selectbox("Task", list(run.results), key="calibrated task")
    result = _cached("calibration", lambda: calibration(run, task), (task, _stamp([summary])))
    model = str(run.record.model.get("name", ""))
    code = (
        "from workbench.evaluate.calibration import calibration\n"
        f"from workbench.figures.comparison import reliability_diagram\n{_CODE}"
        f"reliability_diagram({{{model!r}: calibration(Run.open({str(run.path)!r}), {task!r})}})\n"
    )
    mean, most = result.by_chance
    st.markdown(
        plain(
            f"Expected calibration error {result.expected_error.value:.4f}, where a calibrated model has "
            f"{mean:.4f} by chance (95 %: up to {most:.4f}); debiased error {result.debiased_error}, "
            f"Brier score {result.brier}"
        )
    )
    if result.scaled is not None:
        first, second = result.scaled.temperatures
        st.markdown(
            plain(
                f"With a temperature fitted on the other half of the items ({first:.2f} and {second:.2f}): expected "
                f"calibration error {result.scaled.expected_error:.4f}, loss {result.scaled.loss:.4f} nats an item, "
                f"before {result.scaled.loss_before:.4f}"
            )
        )
    show_view(reliability_diagram({model: result}, display_mode=theme()), "calibration", code)
    bins = pd.DataFrame(
        [{**asdict(b.accuracy), "from": b.low, "to": b.high, "confidence": b.confidence} for b in result.bins]
    )
    with st.expander("Bins"):
        show_table(
            bins[["from", "to", "confidence", "value", "low", "high", "n"]],
            "bins",
            "Bins of confidence",
            code,
        )
