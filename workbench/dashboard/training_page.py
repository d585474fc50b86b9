"""Training: loss curves and throughput, metrics over training steps, sweeps."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from workbench.dashboard.collect import learning_curves, over_steps, step_curves, stored_sweeps, training_log
from workbench.dashboard.show import extras, plain, show_table, show_view, theme
from workbench.dashboard.store import runs_folder, stored_runs
from workbench.errors import RunError
from workbench.figures import curve_plot
from workbench.figures.frames import table_view
from workbench.runs import RunSummary
from workbench.training.sweep import SweepRow, sweep_table

__all__ = ["training_page"]


def training_page() -> None:
    """Curves of the chosen training runs; emergence of stored metrics; sweep tables."""
    st.title("Training")
    try:
        runs = stored_runs()
    except RunError as error:
        st.error(plain(str(error)))
        return
    logs = {run.id: log for run in runs if not (log := training_log(run)).empty}
    sweeps = stored_sweeps()
    frame = over_steps(runs)
    if not logs and not sweeps and frame.empty:
        _how()
        return
    if logs:
        _curves(runs, logs)
    if not frame.empty:
        _emergence(frame)
    if sweeps:
        _sweeps(sweeps)


def _how() -> None:
    st.info("No training run, sweep or checkpoint evaluation in the runs folder yet. Start one of these:")
    st.code(
        "workbench train --preset llama-tiny --corpus FILE.txt --steps 200 --keep-steps 0,1,2,4,… --out runs/my-model\n"
        "workbench sweep --preset llama-tiny --corpus FILE.txt --vary positions=learned,rope --out runs/positions\n"
        "workbench evaluate runs/my-model --over-steps --task lambada_sample",
        language="bash",
        wrap_lines=True,
    )


def _curves(runs: list[RunSummary], logs: dict[str, pd.DataFrame]) -> None:
    st.subheader("Learning curves")
    chosen = st.multiselect(
        "Training runs", list(logs), default=list(logs)[:3], key="trainings", bind="query-params"
    )
    shown = {name: logs[name] for name in chosen}
    columns = list(dict.fromkeys(str(c) for log in shown.values() for c in log if c not in ("step", "epoch")))
    if not columns:
        st.info("Choose at least one training run.")
        return
    column: str = st.selectbox("Quantity", columns, key="quantity", bind="query-params")
    curves = learning_curves(shown, column)
    code = "from pathlib import Path\nfrom workbench.training.progress import read_log\n\n" + "".join(
        f"read_log(Path({str(runs_folder() / name / 'log.jsonl')!r}))\n" for name in chosen
    )
    if curves:
        view = curve_plot(curves, x="step", y=column, title=f"{column} over training", display_mode=theme())
        show_view(view, f"training {column}", code)
    unfinished = [run.id for run in runs if run.id in shown and run.state != "complete"]
    if unfinished:
        st.caption(f"Not finished, or going on: {plain(', '.join(unfinished))}")
    show_table(_summary(shown), "trainings table", "Training runs", code)


def _summary(logs: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Where each run stands: its last step, losses and speed."""
    wanted = ("loss", "eval_loss", "tokens_per_second", "utilisation")
    rows = []
    for name, log in logs.items():
        last = {
            column: log[column].dropna().iloc[-1]
            for column in wanted
            if column in log and log[column].notna().any()
        }
        rows.append({"run": name, "steps": int(log["step"].max()), **last})
    return pd.DataFrame(rows)


def _emergence(frame: pd.DataFrame) -> None:
    st.subheader("Over training steps")
    names = [
        f"{task} {metric}"
        for task, metric in frame[["task", "metric"]].drop_duplicates().itertuples(index=False)
    ]
    chosen = st.selectbox("Metric", names, key="emergence", bind="query-params")
    part = frame[(frame["task"] + " " + frame["metric"]) == chosen]
    view = curve_plot(
        step_curves(part),
        x="step",
        y=chosen,
        title=f"{chosen} over training steps",
        note="Bands are the intervals of the stored runs.",
        display_mode=theme(),
    )
    code = (
        "from workbench.dashboard.collect import over_steps\nfrom workbench.dashboard.store import stored_runs\n\n"
        "over_steps(stored_runs())\n"
    )
    show_view(view, f"emergence {chosen}", code)


def _sweeps(sweeps: dict[str, list[SweepRow]]) -> None:
    st.subheader("Sweeps")
    name = st.selectbox("Sweep", list(sweeps), key="sweep", bind="query-params")
    table = sweep_table(sweeps[name])
    if table.empty:
        st.info("This sweep has no row yet.")
        return
    st.dataframe(table, hide_index=True, width="stretch", alt=f"Sweep {name}")
    code = f"import pandas as pd\n\npd.read_json({str(runs_folder() / name / 'sweep.json')!r})\n"
    extras(table_view(table, title=f"Sweep {name}"), f"sweep {name}", code)
