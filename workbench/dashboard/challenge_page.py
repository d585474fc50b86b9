"""Challenge sets: results by capability and test, failing cases and why, and checks to run."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import streamlit as st

from workbench.citations import papers_of_run
from workbench.dashboard.jobs import Job
from workbench.dashboard.jobs_panel import shown_below, start_job
from workbench.dashboard.navigate import inspect_text
from workbench.dashboard.resources import chosen_model, load_code, models_on_offer
from workbench.dashboard.show import area, cite, plain, show_table, show_view, theme
from workbench.dashboard.store import allowed_path, first_examples, open_run, runs_folder, stored_runs
from workbench.data import content_hash
from workbench.errors import ConfigError, RunError, WorkbenchError
from workbench.figures.frames import table_view
from workbench.runs import make_folder, write_atomically
from workbench.terminal import counted

if TYPE_CHECKING:
    from challenge_sets.suite import Suite
    from workbench.models import LoadedModel
    from workbench.runs import Run

__all__ = ["STARTER", "challenge_page", "editor", "groups_frame", "read_suite", "show_check"]

_ROWS = 2000  # examples read for failing cases


def show_check(run: Run) -> None:
    """One run of a suite or set: its table with intervals, then what failed."""
    code = f"from workbench.runs import Run\n\nrun = Run.open({str(run.path)!r})\n"
    if not run.complete:
        st.warning("This check is not finished; what it has so far is shown.")
    frame = groups_frame(run)
    if "suite" in frame and frame["suite"].nunique() == 1:
        frame = frame.drop(columns="suite")
    if not frame.empty:
        lower = "failure rate" in frame
        value = "failure rate" if lower else "value"
        note = "Lines are 95 % intervals" + (", clustered by template." if lower else ".")
        title = f"{run.record.recipe.get('set')} · {Path(str(run.record.model.get('name'))).name}"
        view = table_view(
            frame, interval=(value, "95 % low", "95 % high"), note=note, title=title, display_mode=theme()
        )
        show_view(view, f"check {run.path.name}", f"{code}run.results, run.notes.get('tests')\n")
    cite(papers_of_run(run.record.verb, run.record.recipe))
    _failing(run, code)


def groups_frame(run: Run) -> pd.DataFrame:
    """Capability and test with their failure rates; or group and metric, of sets without tests."""
    tests = run.notes.get("tests") or {}
    rows = []
    for group, metrics in run.results.items():
        for metric, estimate in metrics.items():
            ends: dict[str, Any] = {"95 % low": estimate.low, "95 % high": estimate.high, "n": estimate.n}
            ends["undefined"] = estimate.undefined or ""
            if group in tests and metric == "failure_rate":
                test = tests[group]
                names = {k: test[k] for k in ("suite", "capability", "test", "kind")}
                rows.append({**names, "failure rate": estimate.value, **ends})
            else:
                rows.append(
                    {
                        "group": group.removeprefix(f"{run.record.recipe.get('set')}/"),
                        "metric": metric,
                        "value": estimate.value,
                        **ends,
                    }
                )
    for group in (name for name in tests if name not in run.results):  # no case was judged
        names = {k: tests[group][k] for k in ("suite", "capability", "test", "kind")}
        rows.append({**names, "n": 0, "undefined": tests[group].get("reason", "")})
    return pd.DataFrame(rows)


def _failing(run: Run, code: str) -> None:
    head, count = first_examples(run, _ROWS)
    if "correct" not in head:
        return
    failing = head[head["correct"].eq(False)].reset_index(drop=True)
    st.subheader("Failing cases")
    if failing.empty:
        st.success("None failed.")
        return
    order = ("test", "group", "good", "bad", "margin", "predicted", "texts", "id")
    shown = [c for c in order if c in failing and not (c == "group" and "test" in failing)]
    st.caption(
        f"{len(failing):,} of the first {min(count, _ROWS):,} cases, the worst first. Choose one to explain it."
    )
    row = show_table(
        failing[shown],
        f"failing {run.path.name}",
        "Failing cases",
        f"{code}examples = run.examples()\nexamples[examples['correct'].eq(False)]\n",
        select=True,
    )
    if (
        st.button("Explain", disabled=row is None, type="primary", icon=":material/search:")
        and row is not None
    ):
        case, model = failing.iloc[row], run.record.model
        known = None if model.get("kind") in ("predictions", "function") else str(model["name"])
        good, bad = str(case.get("good", "")), str(case.get("bad", ""))
        compared = bool(good and bad and good != bad)
        inspect_text(
            good or bad,
            other=bad if compared else "",
            tab="difference" if compared else "attention",
            model=known,
        )


_LIVE = "live check"  # in the session: the job, and then the run, of the suite on the page


_LONGEST = 8000


STARTER = """\
suite: my suite
labels:
  negative: [neg, LABEL_0]
  positive: [pos, LABEL_1]
prompt:
  text: "{0} In short, it was"
  answers: {negative: " terrible", positive: " great"}
tests:
  - name: negated praise
    capability: Negation
    kind: MFT
    template: "The {thing} was not {positive_adjective}."
    lexicons: {thing: [film, book, hotel]}
    label: negative
  - name: typing errors change nothing
    capability: Robustness
    kind: INV
    template: "The film was {negative_adjective}."
    perturb: [typos]
"""


def editor() -> None:
    """The text of a suite, what it expands to, and what the model does with it."""
    text = area("A suite in YAML", "template", STARTER, height=380, limit=_LONGEST)
    try:
        suite = read_suite(text)
    except WorkbenchError as error:
        st.error(plain(str(error)))
        return
    cases = [
        {"test": test.name, "kind": str(test.kind), "texts": " ⟶ ".join(" | ".join(e) for e in case.examples)}
        for test in suite.tests
        for case in test.cases
    ]
    st.caption(f"{counted(len(suite.tests), 'test')}, {counted(len(cases), 'case')}")
    model = chosen_model()
    if st.button("Run", type="primary", disabled=model is None) and model is not None:
        _start(suite, text, model)
        st.rerun()
    _result()
    with st.expander("The cases", expanded=_LIVE not in st.session_state):
        show_table(pd.DataFrame(cases), "cases", "Cases", _code(text))


def read_suite(text: str) -> Suite:
    """The suite in a text; raises :class:`~workbench.errors.ConfigError` that says in which line a mistake is."""
    from challenge_sets.suite import load_suites

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "template.yaml"
        path.write_text(text, encoding="utf-8", errors="replace")
        try:
            return load_suites(str(path))[0]
        except WorkbenchError as error:
            raise ConfigError(str(error).replace(str(path), "the template")) from error


def _start(suite: Suite, text: str, model: LoadedModel) -> None:
    """Ask the model, as a job whose run is shown here when it is done."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", suite.name).strip("-")[:60] or "suite"
    # Someone else's suite of the same name is another file.
    path = runs_folder() / ".suites" / f"{name}-{content_hash([text])[:12]}.yaml"
    make_folder(path.parent)
    write_atomically(path, text.encode("utf-8", "replace"))
    options = [
        f"--suite={path}",
        "--no-doctor",
        f"--implementation={model.implementation}",
    ]
    st.session_state[_LIVE] = start_job(
        f"check {suite.name} on {Path(model.name).name}", "check", options, model.name
    )


def _result() -> None:
    """The run of this session's last job here, once there is one."""
    shown = st.session_state.get(_LIVE)
    if isinstance(shown, Job) and shown.run is not None:
        st.session_state[_LIVE] = shown.run
        shown_below(shown)
        shown = shown.run
    if isinstance(shown, str):
        try:
            show_check(open_run(shown))
        except WorkbenchError:
            del st.session_state[_LIVE]  # deleted meanwhile


def _code(text: str) -> str:
    model = chosen_model()
    loading = load_code(model) if model is not None else ""
    return (
        "from pathlib import Path\n\nimport workbench\n\n"
        f"Path('template.yaml').write_text({text!r})\n"
        f"{loading}workbench.check(model, 'template.yaml', doctor=False)\n"
    )


_PARTS = ("results", "run", "write a template")


def challenge_page() -> None:
    """The stored checks; a form for another; an editor that runs live."""
    st.title("Challenge sets")
    part = st.segmented_control(
        "Part",
        _PARTS,
        default="results",
        required=True,
        key="part",
        bind="query-params",
        label_visibility="collapsed",
    )
    if part == "run":
        _form()
    elif part == "write a template":
        editor()
    else:
        _results()


def _results() -> None:
    try:
        runs = [run for run in stored_runs() if run.record is not None and run.record.verb == "check"]
    except RunError as error:
        st.error(plain(str(error)))
        return
    if not runs:
        st.info("No check is stored yet. Choose a set under *run*, or write a template of your own.")
        return
    name = st.selectbox("Open", [run.id for run in runs], key="check", bind="query-params")
    try:
        show_check(open_run(name))
    except WorkbenchError as error:
        st.error(plain(str(error)))


def _form() -> None:
    from challenge_sets import set_names
    from challenge_sets.suite import suite_names
    from workbench.evaluate import TASKS

    label = st.session_state.get("model")
    if label is None:
        return
    suites, sets = suite_names(), set_names()
    with st.form("check", border=False):
        with st.container(horizontal=True, vertical_alignment="bottom"):
            chosen = st.selectbox("Suite or set", [*suites, *sets], key="check name")
            limit = st.number_input("Cases a test", 1, 10_000, 20, key="check limit", width=140)
        data = st.text_input(
            "Folder with the set's files (not for suites and built-in pairs)", key="check data"
        )
        if st.form_submit_button("Run", type="primary"):
            try:
                folder = [f"--data-dir={allowed_path(data.strip())}"] if data.strip() else []
            except WorkbenchError as error:
                st.error(plain(str(error)))
                return
            which = f"--suite={chosen}" if chosen in suites else f"--set={chosen}"
            options = [which, f"--limit-per-paradigm={int(limit)}", *folder]
            start_job(f"check {chosen} on {label}", "check", options, models_on_offer()[label])
            st.rerun()
    about = [{"name": n, "about": TASKS.get(n).about} for n in sets]
    with st.expander("What the sets are"):
        show_table(
            pd.DataFrame(about),
            "sets",
            "Challenge sets",
            "from challenge_sets import set_names\n\nset_names()\n",
        )
