"""Inspect: a text, a pair or two texts, and what the chosen models do with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import streamlit as st

from workbench.dashboard.inspection.attacks import attacks_tab
from workbench.dashboard.inspection.attention import attention_tab
from workbench.dashboard.inspection.context import context_tab
from workbench.dashboard.inspection.difference import difference_tab
from workbench.dashboard.inspection.generation import generation_tab
from workbench.dashboard.inspection.heads import heads_tab
from workbench.dashboard.inspection.neurons import neurons_tab
from workbench.dashboard.inspection.patching import patching_tab
from workbench.dashboard.inspection.predictions import predictions_tab
from workbench.dashboard.inspection.saliency import saliency_tab
from workbench.dashboard.inspection.texts import Texts, text_fields
from workbench.dashboard.resources import chosen_models
from workbench.dashboard.show import plain
from workbench.errors import WorkbenchError
from workbench.models import LoadedModel

__all__ = ["inspect_page"]

Tab: TypeAlias = Callable[[Sequence[LoadedModel], Texts], Callable[[LoadedModel], None]]

# tab -> what draws it
TABS: dict[str, Tab] = {
    "attention": attention_tab,
    "saliency": saliency_tab,
    "predictions": predictions_tab,
    "patching": patching_tab,
    "context": context_tab,
    "generation": generation_tab,
    "attacks": attacks_tab,
    "heads": heads_tab,
    "neurons": neurons_tab,
    "difference": difference_tab,
}
COMPARING = ("difference", "patching")


def inspect_page() -> None:
    """Text fields, the tabs, and the chosen one for each model."""
    st.title("Inspect")
    models = chosen_models()
    if not models:
        return
    fields = st.container()
    tab = st.segmented_control(
        "Look at",
        list(TABS),
        default="attention",
        required=True,
        key="tab",
        bind="query-params",
        persist_state="session",
    )
    with fields:
        texts = text_fields(models, compared=tab in COMPARING)
    if not texts.text.strip():
        st.error("The text is empty; write something to look at.")
        return
    try:
        draw = TABS[tab or "attention"](models, texts)
    except WorkbenchError as error:
        st.error(plain(str(error)))
        return
    for column, model in zip(st.columns(len(models)), models, strict=True):
        with column:
            if len(models) > 1:
                st.subheader(plain(Path(model.name).name))
            try:
                draw(model.reads(chat=texts.chat, system=texts.system))
            except WorkbenchError as error:
                st.error(plain(str(error)))
