"""Preferences: a blinded vote on two models' replies, what was found, and a form for new replies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st
from markupsafe import Markup

from workbench.characters import neutral
from workbench.citations import papers_of_run
from workbench.dashboard.jobs_panel import start_job
from workbench.dashboard.resources import models_on_offer
from workbench.dashboard.show import cite, plain, show_table, show_view, theme
from workbench.dashboard.store import allowed_model, allowed_path, open_run, runs_folder, stored_runs
from workbench.errors import RunError, WorkbenchError
from workbench.evaluate.preferences import VOTE, Ballot, Choice, has_replies, preferences_of
from workbench.figures.comparison import preference_plot
from workbench.runs import RunState, RunSummary
from workbench.terminal import counted

if TYPE_CHECKING:
    from workbench.evaluate.preferences import BallotItem
    from workbench.runs import Run

__all__ = ["preferences_page"]

_NEW = "a new one"
_PARTS = ("vote", "results", "make replies")
_TEXT = Markup(
    '<p style="margin:0;font-size:.85rem;opacity:.75">{}</p>'
    '<div dir="auto" style="white-space:pre-wrap;overflow-wrap:anywhere;unicode-bidi:isolate">{}</div>'
)
_KEYS = {Choice.LEFT: ("Left", "1"), Choice.TIE: ("Tie", "0"), Choice.RIGHT: ("Right", "2")}


_WHERE = "the ballot that is open"  # its run's name, and itself
_PLACE = "place in the ballot"
_PROBLEM = "why a vote was not stored"


def preferences_page() -> None:
    """Vote, look at what was found, or have models reply."""
    st.title("Preferences")
    part = st.segmented_control(
        "Part",
        _PARTS,
        default="vote",
        required=True,
        key="preferences",
        bind="query-params",
        label_visibility="collapsed",
    )
    try:
        runs = [
            run for run in stored_runs() if run.record is not None and run.record.verb in ("compare", VOTE)
        ]
        if part == "results":
            _results(runs)
        elif part == "make replies":
            _form()
        else:
            _vote([run for run in runs if run.record is not None and run.record.verb == VOTE], runs)
    except WorkbenchError as error:
        st.error(plain(str(error)))


def _vote(ballots: list[RunSummary], runs: list[RunSummary]) -> None:
    names = [run.id for run in ballots]
    asked = st.query_params.get("ballot")
    known = [_NEW, *names]
    chosen = st.selectbox("Ballot", known, index=known.index(asked) if asked in names else 0)
    if chosen != (asked or _NEW):  # a field bound to the address loses it where what it offers changes
        st.query_params.pop("ballot", None)
        if chosen != _NEW:
            st.query_params["ballot"] = chosen
    if chosen == _NEW:
        _start(runs)
        return
    run = open_run(chosen)
    if run.complete:
        show_preferences(run)
    else:
        _ask(_ballot(run))


def _start(runs: list[RunSummary]) -> None:
    """Choose what to vote on; the names of the models are hidden from there on."""
    known = [run.id for run in runs if run.state is RunState.COMPLETE and has_replies(open_run(run.id))]
    if not known:
        st.info(
            "No replies to vote on yet. Have models reply under *make replies*, or with "
            "`workbench compare MODEL MODEL --preferences --prompts FILE`."
        )
        return
    with st.form("ballot form", border=False):
        source = st.selectbox("Replies", known, key="replies")
        with st.container(horizontal=True, vertical_alignment="bottom"):
            voter = st.text_input("Your name", key="voter", max_chars=80)
            limit = st.number_input("Comparisons at most", 1, 10_000, 50, key="ballot limit", width=180)
        if st.form_submit_button("Start", type="primary"):
            ballot = Ballot.begin(open_run(source), voter=voter.strip(), limit=int(limit), out=runs_folder())
            st.session_state[_WHERE] = (ballot.path.name, ballot)
            st.query_params["ballot"] = ballot.path.name
            st.rerun()


def _ballot(run: Run) -> Ballot:
    """Read once a session: every vote after that is in memory and stored."""
    name, ballot = st.session_state.get(_WHERE, ("", None))
    if name != run.path.name or ballot is None:
        ballot = Ballot.open(run)
        st.session_state[_WHERE] = (run.path.name, ballot)
        st.session_state.pop(_PLACE, None)
    return ballot


def _ask(ballot: Ballot) -> None:
    count, done = len(ballot.items), len(ballot.choices)
    place = st.session_state.get(_PLACE, ballot.place)
    st.progress(done / count, text=f"{done:,} of {counted(count, 'comparison')} voted on")
    if _PROBLEM in st.session_state:
        st.error(plain(st.session_state.pop(_PROBLEM)))
    if place is None or place >= count:
        _end(ballot)
        return
    item = ballot.items[place]
    st.html(_TEXT.format(f"Prompt {place + 1:,}", neutral(item.prompt, "\n\t")))
    _sides(item)
    given = ballot.choices.get(place)
    with st.container(horizontal=True, horizontal_alignment="center"):
        for choice, (label, key) in _KEYS.items():
            st.button(
                label,
                key=f"choose {choice}",
                shortcut=key,
                type="primary" if choice is given else "secondary",
                on_click=_cast,
                args=(ballot, place, choice),
            )
    st.button(
        "Back", key="back", icon=":material/undo:", disabled=place == 0, on_click=_to, args=(place - 1,)
    )


def _sides(item: BallotItem) -> None:
    for column, side, text in zip(st.columns(2), ("Left", "Right"), (item.left, item.right), strict=True):
        with column.container(border=True, height="stretch"):
            st.html(_TEXT.format(side, neutral(text, "\n\t") if text.strip() else "(an empty reply)"))


def _cast(ballot: Ballot, place: int, choice: Choice) -> None:
    try:
        ballot.cast(place, choice)
    except WorkbenchError as error:
        st.session_state[_PROBLEM] = str(error)
    else:
        _to(place + 1)


def _to(place: int) -> None:
    st.session_state[_PLACE] = place


def _end(ballot: Ballot) -> None:
    """Before the names are shown a voter may still go back."""
    if ballot.place is not None:
        st.button("Go to the first without a vote", on_click=_to, args=(ballot.place,), type="primary")
        return
    st.write(
        "All comparisons have a vote. Finishing shows which model wrote what; votes stay as they are then."
    )
    with st.container(horizontal=True):
        st.button("Back", key="back", icon=":material/undo:", on_click=_to, args=(len(ballot.items) - 1,))
        if st.button("Finish", type="primary", shortcut="Enter"):
            ballot.finish()
            st.session_state.pop(_WHERE, None)
            st.rerun()


def show_preferences(run: Run) -> None:
    """Win rates with their figure, strengths, and the replies."""
    found = preferences_of(run)
    code = (
        "from workbench.evaluate.preferences import preferences_of\nfrom workbench.runs import Run\n\n"
        f"found = preferences_of(Run.open({str(run.path)!r}))\n"
    )
    show_view(
        preference_plot(found, display_mode=theme()),
        f"preferences {run.path.name}",
        f"{code}found.figure()\n",
    )
    columns = [
        "first",
        "second",
        "prompts",
        "wins",
        "losses",
        "ties",
        "win_rate",
        "win_rate low",
        "win_rate high",
    ]
    show_table(found.to_frame()[columns], f"rates {run.path.name}", "Win rates", f"{code}found.to_frame()\n")
    if len(found.strengths.names) > 2:
        table = found.strengths_frame()
        show_table(table, f"strengths {run.path.name}", "Strengths", f"{code}found.strengths_frame()\n")
    cite(papers_of_run(run.record.verb, run.record.recipe))
    with st.expander("The replies"):
        shown = ("prompt", "first", "reply_first", "second", "reply_second", "preferred", "voter")
        examples = run.examples()
        st.dataframe(
            examples[[name for name in shown if name in examples]].head(500),
            hide_index=True,
            width="stretch",
            alt="Replies",
        )


def _results(runs: list[RunSummary]) -> None:
    known = [run.id for run in runs if run.state is RunState.COMPLETE and _decided(run)]
    if not known:
        st.info(
            "Nothing is decided yet: vote, or run `workbench compare MODEL MODEL --preferences --by model:REWARD`."
        )
        return
    name = st.selectbox("Comparison", known, key="comparison", bind="query-params")
    show_preferences(open_run(name))


def _decided(run: RunSummary) -> bool:
    return any("win_rate" in metrics for metrics in run.results.values())


def _form() -> None:
    """Replies of two models and more to prompts of a file, as a job."""
    offered = models_on_offer()
    with st.form("replies form", border=False):
        chosen = st.multiselect("Models", list(offered), key="replying models")
        prompts = st.text_input("File with a column prompt", key="prompts file")
        with st.container(horizontal=True, vertical_alignment="bottom"):
            limit = st.number_input("Prompts at most", 1, 10_000, 20, key="prompts limit", width=140)
            tokens = st.number_input("Tokens at most", 1, 4096, 64, key="reply tokens", width=140)
            temperature = st.number_input("Temperature", 0.0, 5.0, 1.0, key="reply temperature", width=140)
        if st.form_submit_button("Run", type="primary"):
            models = [offered[label] for label in chosen]
            options = [f"--limit={limit}", f"--max-tokens={tokens}", f"--temperature={temperature}"]
            _reply(models, prompts.strip(), options)


def _reply(models: list[str], prompts: str, options: list[str]) -> None:
    if len(models) < 2 or not prompts:
        raise RunError("choose two models or more, and name a file of prompts")
    for model in models:
        allowed_model(model)
    given = ["--preferences", f"--prompts={allowed_path(prompts)}", f"--root={runs_folder()}", *options]
    start_job(f"replies of {counted(len(models), 'model')}", "compare", given, *models, stores=False)
    st.rerun()
