"""Attention: by head, of all layers, neuron by neuron, or as an alignment of target and source."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st

from workbench.dashboard.inspection.texts import Texts
from workbench.dashboard.resources import load_code, traced
from workbench.dashboard.show import show_view, theme
from workbench.figures.looking import Look, ViewKind, view_of
from workbench.models import LoadedModel
from workbench.trace import Structure, Trace, structure_of

__all__ = ["attention_tab"]


def attention_tab(models: Sequence[LoadedModel], texts: Texts) -> Callable[[LoadedModel], None]:
    """The row of choices; what is returned draws one model."""
    look = _look(models)
    return lambda model: _show(model, texts, look)


def _look(models: Sequence[LoadedModel]) -> Look:
    structures = [structure_of(model.model) for model in models]
    crossing = all(model.config.is_encoder_decoder for model in models)
    kinds = [str(k) for k in ViewKind if crossing or k is not ViewKind.ALIGNMENT]
    layers = list(range(max(s.layers[s.main] for s in structures)))
    heads = ["all", *map(str, range(max(s.heads[s.main] for s in structures)))]
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


def _fitting(look: Look, structure: Structure) -> Look:
    """The choice as far as the model has such a layer and head: of two models one may be smaller."""
    from dataclasses import replace

    layers, heads = structure.layers[structure.main], structure.heads[structure.main]
    fits = look.heads is None or look.heads[0] < heads
    return replace(look, layer=min(look.layer or 0, layers - 1), heads=look.heads if fits else None)


def _show(model: LoadedModel, texts: Texts, look: Look) -> None:
    fitting = _fitting(look, structure_of(model.model))
    target = texts.target if model.config.is_encoder_decoder else None
    found = traced(model, texts.whole, target, fitting.kind)
    _say(found)
    show_view(view_of(found, fitting), f"{fitting.kind}-view {model.name}", _code(model, texts, fitting))
    st.caption("Attention shows where a model looks. It does not say why the model decides as it does.")


def _say(found: Trace) -> None:
    if found.cut:
        st.warning(f"{found.cut:,} tokens did not fit into the model and were cut.")
    st.caption(f"{len(found[0].tokens):,} tokens")


def _code(model: LoadedModel, texts: Texts, look: Look) -> str:
    shown = {
        "kind": f"ViewKind.{look.kind.name}",
        "layer": look.layer,
        "heads": look.heads,
        "merge_words": look.merge_words,
        "hide_sinks": look.hide_sinks,
    }
    arguments = ", ".join(f"{name}={value}" for name, value in shown.items() if value not in (None, False))
    ending = f", target={texts.target!r}" if texts.target and model.config.is_encoder_decoder else ""
    return (
        "import workbench\n"
        "from workbench.figures.looking import Look, ViewKind, trace_for, view_of\n\n"
        f"{load_code(model)}"
        f"look = Look({arguments})\n"
        f"view_of(trace_for(model, {texts.whole!r}, look{ending}), look)\n"
    )
