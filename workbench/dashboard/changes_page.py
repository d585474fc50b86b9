"""Changes: what training changed inside a model, the first of the sidebar's against the second and further ones."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import ExitStack

import streamlit as st

from probes import TASKS, ChangesSettings, changes
from workbench.analysis.changes import Changes
from workbench.citations import papers
from workbench.dashboard.resources import (
    chosen_models,
    identity,
    models_on_offer,
    opened,
    sample_texts,
    stoppable,
)
from workbench.dashboard.show import area, cite, plain, show_table, show_view, theme
from workbench.dashboard.store import PRECISION, allowed_model, allowed_path
from workbench.errors import WorkbenchError, WorkbenchWarning
from workbench.figures.changes import changes_views
from workbench.models import LoadedModel

__all__ = ["changes_page"]

_SAMPLE = 12  # passages to begin with
_PLACES = 600  # words that CKA compares
_SENTENCES = 100  # that are probed


def changes_page() -> None:
    """Texts and what is compared besides; then a figure for each part."""
    st.title("Changes")
    models = chosen_models()
    if not models:
        return
    texts = [
        line
        for line in area("Texts, one a line", "texts", _example(), height=120).splitlines()
        if line.strip()
    ]
    try:
        further, settings = _options([model.name for model in models])
        models += [opened(name) for name in further]
        if len(models) < 2:
            st.info(
                "Choose a second model in the sidebar: the one after training. The first is the one before. "
                "Checkpoints of a run are added on Models as FOLDER@step-8."
            )
            return
        if not texts:
            st.error("There are no texts; write at least one.")
            return
        _show(_compared(tuple(models), tuple(texts), settings), models, texts, settings)
    except WorkbenchError as error:
        st.error(plain(str(error)))


def _example() -> str:
    return "\n".join(" ".join(text.split()) for text in sample_texts()[:_SAMPLE])


def _options(chosen: Sequence[str]) -> tuple[list[str], ChangesSettings]:
    """Models besides those of the sidebar, and what is compared besides the usual.

    Raises :class:`~workbench.errors.WorkbenchError` for files and models that no page may read.
    """
    offered = {label: name for label, name in models_on_offer().items() if name not in chosen}
    with st.expander("Further models, probes, a direction, a reward"):
        more = st.multiselect(
            "Further models after training", list(offered), key="further", bind="query-params"
        )
        with st.container(horizontal=True, vertical_alignment="bottom"):
            task = st.selectbox(
                "Probe task", TASKS.names(), index=None, key="changes probe", placeholder="none", width=220
            )
            direction = st.text_input(
                "Direction", key="changes direction", help="A table with text and label: two groups of texts."
            )
            reward = st.text_input(
                "Reward",
                key="changes reward",
                help="model:NAME or model:NAME#LABEL: which tokens it rests on.",
            )
    if reward.startswith("model:"):
        allowed_model(reward.removeprefix("model:").partition("#")[0])
    return [offered[label] for label in more], ChangesSettings(
        probe_task=task,
        probe_limit=_SENTENCES,
        direction=str(allowed_path(direction.strip())) if direction.strip() else None,
        reward=reward.strip() or None,
        places=_PLACES,
    )


@st.cache_resource(
    max_entries=4,
    ttl=600,
    show_spinner="Comparing the models …",
    hash_funcs={LoadedModel: identity, ChangesSettings: str},
)
def _compared(models: tuple[LoadedModel, ...], texts: tuple[str, ...], settings: ChangesSettings) -> Changes:
    with warnings.catch_warnings(), ExitStack() as stack:
        warnings.simplefilter("ignore", WorkbenchWarning)  # the notes say so
        for model in models:
            stack.enter_context(stoppable(model))
        return changes(models, texts, settings)


def _show(
    found: Changes, models: Sequence[LoadedModel], texts: Sequence[str], settings: ChangesSettings
) -> None:
    for note in found.notes:
        st.caption(plain(note))
    code = _code(models, texts, settings)
    for name, view in changes_views(found, display_mode=theme()).items():
        st.subheader(plain(name))
        show_view(view, f"changes {name}", f"{code}found.figure()\n")
    with st.expander("All numbers"):
        show_table(
            found.to_frame(), "changes numbers", "Numbers of the comparison", f"{code}found.to_frame()\n"
        )
    cite(papers("analysis", "CKA", "logit lens"))


def _code(models: Sequence[LoadedModel], texts: Sequence[str], settings: ChangesSettings) -> str:
    names = [model.name for model in models]
    default = ChangesSettings()
    given = {
        name: value
        for name in ("probe_task", "probe_limit", "direction", "reward", "places")
        if (value := getattr(settings, name)) != getattr(default, name)
    }
    options = "".join(f", {name}={value!r}" for name, value in given.items())
    return (
        f"import workbench\n\nmodels = [workbench.load(name, dtype={PRECISION!r}) for name in {names!r}]\n"
        f"texts = {list(texts)!r}\nfound = workbench.changes(models, texts{options})\n"
    )
