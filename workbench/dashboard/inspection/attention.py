"""Attention: by head, of all layers, neuron by neuron, or as an alignment of target and source."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st

from workbench.analysis.alignment_error import Step
from workbench.citations import papers
from workbench.dashboard.inspection.texts import Texts
from workbench.dashboard.resources import load_code, traced
from workbench.dashboard.show import cite, show_view, theme
from workbench.figures.view_options import ViewKind, ViewOptions, view_of
from workbench.models import LoadedModel
from workbench.terminal import counted
from workbench.trace import Structure, Trace, structure_of

__all__ = ["attention_tab"]


def attention_tab(models: Sequence[LoadedModel], texts: Texts) -> Callable[[LoadedModel], None]:
    """The row of choices; what is returned draws one model."""
    view_options = _view_options(models)
    return lambda model: _show(model, texts, view_options)


def _view_options(models: Sequence[LoadedModel]) -> ViewOptions:
    structures = [structure_of(model.model) for model in models]
    crossing = all(model.config.is_encoder_decoder for model in models)
    kinds = [str(k) for k in ViewKind if crossing or k is not ViewKind.ALIGNMENT]
    layers = list(range(max(s.layers[s.shown] for s in structures)))
    heads = ["all", *map(str, range(max(s.heads[s.shown] for s in structures)))]
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
        step = _step() if kind == ViewKind.ALIGNMENT else Step.PREDICTS
    return ViewOptions(
        kind=ViewKind(kind or "head"),
        layer=layer,
        heads=None if head == "all" else (int(head),),
        merge_words=words,
        hide_sinks=sinks,
        step=step,
        display_mode=theme(),
    )


def _step() -> Step:
    chosen = st.segmented_control(
        "A row is the token that its step",
        [str(step) for step in Step],
        default="predicts",
        required=True,
        key="step",
        bind="query-params",
    )
    return Step(chosen or "predicts")


def _fitting(view_options: ViewOptions, structure: Structure) -> ViewOptions:
    """The choice as far as the model has such a layer and head: of two models one may be smaller."""
    from dataclasses import replace

    layers, heads = structure.layers[structure.shown], structure.heads[structure.shown]
    fits = view_options.heads is None or view_options.heads[0] < heads
    return replace(
        view_options,
        layer=min(view_options.layer or 0, layers - 1),
        heads=view_options.heads if fits else None,
    )


def _show(model: LoadedModel, texts: Texts, view_options: ViewOptions) -> None:
    fitting = _fitting(view_options, structure_of(model.model))
    target = texts.target if model.config.is_encoder_decoder else None
    found = traced(model, texts.whole, target, fitting.kind)
    _say(found)
    show_view(view_of(found, fitting), f"{fitting.kind}-view {model.name}", _code(model, texts, fitting))
    st.caption("Attention shows where a model looks. It does not say why the model decides as it does.")
    if view_options.hide_sinks:
        cite(papers("analysis", "attention sinks"))


def _say(found: Trace) -> None:
    if found.truncated:
        st.warning(f"{counted(found.truncated, 'token')} truncated to fit into the model")
    st.caption(counted(len(found[0].tokens), "token"))


def _code(model: LoadedModel, texts: Texts, view_options: ViewOptions) -> str:
    shown = {
        "kind": f"ViewKind.{view_options.kind.name}",
        "layer": view_options.layer,
        "heads": view_options.heads,
        "merge_words": view_options.merge_words,
        "hide_sinks": view_options.hide_sinks,
        "step": None if view_options.step is Step.PREDICTS else repr(str(view_options.step)),
    }
    arguments = ", ".join(f"{name}={value}" for name, value in shown.items() if value not in (None, False))
    ending = f", target={texts.target!r}" if texts.target and model.config.is_encoder_decoder else ""
    return (
        "import workbench\n"
        "from workbench.figures.view_options import ViewOptions, ViewKind, trace_for, view_of\n\n"
        f"{load_code(model)}"
        f"options = ViewOptions({arguments})\n"
        f"view_of(trace_for(model, {texts.whole!r}, options{ending}), options)\n"
    )
