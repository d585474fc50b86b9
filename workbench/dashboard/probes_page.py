"""Probes: what each layer knows of a property; run an experiment, or open one."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import streamlit as st

from probes import TASKS, ProbeReport, open_report, over_steps, steps_figure
from probes.experiment import PROBE_KINDS, layers_of
from workbench.citations import papers_of_run
from workbench.dashboard.jobs_panel import start_job
from workbench.dashboard.resources import models_on_offer
from workbench.dashboard.show import cite, plain, show_table, show_view, theme
from workbench.dashboard.store import allowed_path, open_run, stored_runs
from workbench.errors import RunError, WorkbenchError
from workbench.figures import heat_map
from workbench.runs import RunState, RunSummary

__all__ = ["probes_page"]

_STEP = re.compile(r"(.+?)[/@]step-(\d+)/?")
_ERRORS = 500  # wrongly labelled items shown


def probes_page() -> None:
    """A form that starts an experiment, and the experiments that were stored."""
    st.title("Probes")
    try:
        runs = [run for run in stored_runs() if run.record is not None and run.record.verb == "probe"]
    except RunError as error:
        st.error(plain(str(error)))
        return
    done = [run for run in runs if run.state is RunState.COMPLETE]
    with st.expander("Run an experiment", expanded=not done):
        _form()
    if not done:
        st.info("No probing run is stored yet. Choose a task above and run it; its progress shows on top.")
        return
    name = st.selectbox("Open", [run.id for run in done], key="probing", bind="query-params")
    try:
        _show(name)
    except WorkbenchError as error:
        st.error(plain(str(error)))
    _over_checkpoints(done)


def _form() -> None:
    label = st.session_state.get("model")
    if label is None:
        return
    with st.form("probe", border=False):
        with st.container(horizontal=True, vertical_alignment="bottom"):
            task = st.selectbox("Task", TASKS.names(), index=TASKS.names().index("pos"), key="probe task")
            kind = st.selectbox("Probe", list(PROBE_KINDS), key="probe kind")
            layers = st.text_input("Layers", "all", key="probe layers", width=120, help="all, 0,3,6 or 0-6")
            limit = st.number_input("Sentences at most", 10, 100_000, 300, key="probe limit", width=160)
        data = st.text_input(
            "Data",
            "builtin",
            key="probe data",
            help="builtin: generated sentences; or a file in the task's format",
        )
        controls = st.toggle(
            "Also probe the same model with random weights", value=True, key="probe controls"
        )
        st.caption(f"{plain(label)} · tasks are described by `workbench probe --list`")
        if st.form_submit_button("Run", type="primary"):
            try:
                options = _options(task, kind, layers, int(limit), data, controls)
            except WorkbenchError as error:
                st.error(plain(str(error)))
                return
            start_job(f"probe {task} in {label}", "probe", options, models_on_offer()[label])
            st.rerun()


def _options(task: str, kind: str, layers: str, limit: int, data: str, controls: bool) -> list[str]:
    layers_of(layers)
    chosen = data.strip() or "builtin"
    if chosen != "builtin":
        chosen = str(allowed_path(chosen))
    options = [
        f"--task={task}",
        f"--probe={kind}",
        f"--layers={layers}",
        f"--limit={limit}",
        f"--data={chosen}",
    ]
    return options if controls else [*options, "--no-random-weights"]


def _show(name: str) -> None:
    run = open_run(name)
    report = open_report(run)
    code = (
        "from probes import open_report\nfrom workbench.runs import Run\n\n"
        f"report = open_report(Run.open({str(run.path)!r}))\n"
    )
    st.subheader(plain(f"{report.task} in {Path(report.model).name}: {report.probe} probe"))
    for line in report.conclusions:
        st.markdown(f"- {plain(line)}")
    show_view(report.figure(theme()), f"probe {name}", f"{code}report.figure()\n")
    with st.expander("How it was made"):
        for line in report.stated:
            st.markdown(f"- {plain(line)}")
        cite(papers_of_run(run.record.verb, run.record.recipe))
    with st.expander("All numbers"):
        frame = report.to_frame()
        frame["layer"] = frame["layer"].astype(object).where(frame["layer"].notna(), "")
        show_table(
            frame.astype({"layer": str}),
            f"numbers {name}",
            "Numbers of the probe",
            f"{code}report.to_frame()\n",
        )
    if report.items is not None:
        _items(report, name, code)


def _items(report: ProbeReport, name: str, code: str) -> None:
    """Which labels are taken for which, and the single errors."""
    layer = st.selectbox(
        "Layer", report.layers, index=report.layers.index(report.best_layer), key="probe layer", width=120
    )
    table = report.confusion(layer)
    shares = table.to_numpy(float)
    totals = shares.sum(1, keepdims=True)
    view = heat_map(
        np.divide(shares, totals, out=np.zeros_like(shares), where=totals > 0),
        [str(label) for label in table.index],
        [str(label) for label in table.columns],
        axes=("label", "predicted"),
        unit="share of the label",
        limits=(0.0, 1.0),
        title=f"Confusion at layer {layer}",
        display_mode=theme(),
    )
    show_view(view, f"confusion {name}", f"{code}report.confusion({layer})\n")
    errors = report.errors(layer)
    st.markdown(
        f"**{len(errors):,} of {len(report.items.labels) if report.items else 0:,} items are labelled wrongly**"
    )
    if len(errors):
        show_table(errors.head(_ERRORS), f"errors {name}", "Errors", f"{code}report.errors({layer})\n")


def _over_checkpoints(runs: list[RunSummary]) -> None:
    """One figure for each model whose checkpoints were probed alike."""
    groups: dict[tuple[str, str, str], dict[int, str]] = {}
    for run in reversed(runs):
        assert run.record is not None
        match = _STEP.fullmatch(str(run.record.model.get("name", "")))
        if match is not None:
            recipe = run.record.recipe
            key = (match[1], str(recipe.get("task")), str(recipe.get("probe")))
            groups.setdefault(key, {})[int(match[2])] = run.id
    groups = {key: steps for key, steps in groups.items() if len(steps) > 1}
    if not groups:
        return
    st.subheader("Over checkpoints")
    titles = {f"{Path(model).name}: {task}, {kind}": steps for (model, task, kind), steps in groups.items()}
    chosen = st.selectbox("Training", list(titles), key="probed training", bind=None)
    try:
        reports = {step: open_report(open_run(name)) for step, name in titles[chosen].items()}
        statistic = over_steps(reports)
    except WorkbenchError as error:
        st.error(plain(str(error)))
        return
    code = (
        "from probes import open_report, over_steps, steps_figure\nfrom workbench.runs import Run\n\n"
        f"runs = {titles[chosen]!r}\n"
        "steps_figure(over_steps({step: open_report(Run.open(name)) for step, name in runs.items()}))\n"
    )
    show_view(steps_figure(statistic, theme()), f"probe over steps {chosen}", code)
