"""Inspect: a text, or a pair, and what the chosen model attends to in it."""

from __future__ import annotations

import streamlit as st

from workbench.dashboard.resources import chosen_model, traced
from workbench.dashboard.show import plain, show_view, theme
from workbench.errors import WorkbenchError
from workbench.figures.looking import Look, ViewKind, view_of
from workbench.models import LoadedModel
from workbench.trace import Text, Trace, structure_of

__all__ = ["inspect_page"]

EXAMPLE = "The animal didn't cross the street because it was too tired."
LONGEST = 6000  # characters; what a link can carry to the server in any script


def inspect_page() -> None:
    """Text fields, choice of view, the view, and the lines that make it in a notebook."""
    st.title("Inspect")
    model = chosen_model()
    if model is None:
        return
    text, target = _texts(model)
    try:
        look = _look(model)
        found = traced(model, text, target, look.kind)
        view = view_of(found, look)
    except WorkbenchError as error:
        st.error(plain(str(error)))
        return
    _say(found)
    show_view(view, f"{look.kind}-view")
    st.caption("Attention shows where a model looks. It does not say why the model decides as it does.")
    with st.expander("The code for this"):
        st.code(_code(model, text, target, look), language="python")


def _texts(model: LoadedModel) -> tuple[Text, str | None]:
    """The text or pair, and the target of an encoder-decoder (``None``: generate it)."""
    text = st.text_area("Text", EXAMPLE, key="text", bind="query-params", max_chars=LONGEST, height=80)
    if model.config.is_encoder_decoder:
        target = st.text_area(
            "Target (empty: the model writes it)",
            key="target",
            bind="query-params",
            max_chars=LONGEST,
            height=80,
        )
        return text, target or None
    second = st.text_input("Second text (for a pair)", key="pair", bind="query-params", max_chars=LONGEST)
    return ((text, second) if second.strip() else text), None


def _look(model: LoadedModel) -> Look:
    """The row of choices below the text; each is kept in the address."""
    structure = structure_of(model.model)
    kinds = [str(k) for k in ViewKind if k is not ViewKind.ALIGNMENT or model.config.is_encoder_decoder]
    layers = list(range(structure.layers[structure.main]))
    heads = ["all", *map(str, range(structure.heads[structure.main]))]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        kind = st.segmented_control(
            "View", kinds, default="head", required=True, key="view", bind="query-params"
        )
        layer = st.selectbox("Layer", layers, key="layer", bind="query-params", width=110)
        head = st.selectbox("Head", heads, key="head", bind="query-params", width=110)
        words = st.toggle("Whole words", key="words", bind="query-params")
        sinks = st.toggle(
            "Hide sinks",
            key="sinks",
            bind="query-params",
            help="Leave out attention to the first token and to separators; nothing is renormalised.",
        )
    return Look(
        kind=ViewKind(kind or "head"),
        layer=layer,
        heads=None if head == "all" else (int(head),),
        merge_words=words,
        hide_sinks=sinks,
        display_mode=theme(),
    )


def _say(found: Trace) -> None:
    count = len(found[0].tokens)
    if found.cut:
        st.warning(f"{found.cut:,} tokens did not fit into the model and were cut.")
    st.caption(f"{count:,} tokens")


def _code(model: LoadedModel, text: Text, target: str | None, look: Look) -> str:
    shown = {
        "kind": f"ViewKind.{look.kind.name}",
        "layer": look.layer,
        "heads": look.heads,
        "merge_words": look.merge_words,
        "hide_sinks": look.hide_sinks,
    }
    arguments = ", ".join(f"{name}={value}" for name, value in shown.items() if value not in (None, False))
    ending = "" if target is None else f", target={target!r}"
    return (
        "import workbench\n"
        "from workbench.figures.looking import Look, ViewKind, trace_for, view_of\n\n"
        f"model = workbench.load({model.name!r}, dtype='float32')\n"
        f"look = Look({arguments})\n"
        f"view_of(trace_for(model, {text!r}, look{ending}), look)\n"
    )
