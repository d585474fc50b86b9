"""A suite written on the page: its cases are shown as it is typed, and it runs on the chosen model."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import streamlit as st

from workbench.dashboard.challenge_results import show_check
from workbench.dashboard.fields import area
from workbench.dashboard.jobs import Job
from workbench.dashboard.jobs_panel import shown_below, start_job
from workbench.dashboard.resources import chosen_model, load_code
from workbench.dashboard.show import plain, show_table
from workbench.dashboard.store import open_run, runs_folder
from workbench.data import content_hash
from workbench.errors import ConfigError, WorkbenchError
from workbench.runs import make_folder, write_atomically

if TYPE_CHECKING:
    from challenge_sets.suite import Suite
    from workbench.models import LoadedModel

__all__ = ["STARTER", "editor", "read_suite"]

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
    st.caption(f"{len(suite.tests)} tests, {len(cases):,} cases")
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
        "from pathlib import Path\n\nimport workbench\nfrom challenge_sets import load_suites\n\n"
        f"Path('template.yaml').write_text({text!r})\n"
        f"{loading}suite = load_suites('template.yaml')[0]\nsuite.run(model)\n"
    )
