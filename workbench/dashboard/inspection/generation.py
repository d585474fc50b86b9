"""Generation: what a model writes, token by token, what else was likely, and what it attended to."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pandas as pd
import streamlit as st

from workbench.analysis.generation import Generation, generate_steps
from workbench.dashboard.inspection.texts import Texts
from workbench.dashboard.resources import identity, load_code, stoppable
from workbench.dashboard.show import show_table, show_view, theme
from workbench.figures.text import step_view
from workbench.models import LoadedModel
from workbench.text import printable

__all__ = ["generation_tab"]

_MOST = 40


def generation_tab(models: Sequence[LoadedModel], texts: Texts) -> Callable[[LoadedModel], None]:
    """How many tokens; what is returned draws one model."""
    count = st.slider("Tokens to write", 1, _MOST, 12, key="count", bind="query-params", width=320)
    return lambda model: _show(model, texts, count)


@st.cache_resource(max_entries=6, ttl=600, show_spinner="Writing …", hash_funcs={LoadedModel: identity})
def _generated(model: LoadedModel, text: str, count: int) -> Generation:
    with stoppable(model):
        return generate_steps(model, text, count)


def _show(model: LoadedModel, texts: Texts, count: int) -> None:
    found = _generated(model, texts.text, count)
    code = (
        "import workbench\nfrom workbench.analysis.generation import generate_steps\n"
        "from workbench.figures.text import step_view\n\n"
        f"{load_code(model)}found = generate_steps(model, {texts.text!r}, {count})\n"
    )
    if not found.steps:
        st.info("The model wrote nothing: its first token ends the text.")
        return
    st.text(
        f"{texts.text} ⟶ {found.generated}" if found.attention_of == "cross" else texts.text + found.generated
    )
    step = _step(model, found)
    layers, heads = found.steps[step].attention.shape[:2]
    with st.container(horizontal=True):
        layer = st.selectbox("Layer", ["mean", *range(layers)], key=f"step layer {model.name}", width=120)
        head = st.selectbox("Head", ["mean", *range(heads)], key=f"step head {model.name}", width=120)
    chosen = {"layer": None if layer == "mean" else int(layer), "head": None if head == "mean" else int(head)}
    shown = f"layer={chosen['layer']}, head={chosen['head']}"
    view = step_view(found, step, **chosen, display_mode=theme())
    show_view(view, f"step {model.name}", f"{code}step_view(found, {step}, {shown})\n")
    table = pd.DataFrame(found.steps[step].candidates, columns=["token", "probability"])
    show_table(
        table,
        f"step candidates {model.name}",
        "What else was likely",
        f"{code}found.steps[{step}].candidates\n",
        column_config={
            "probability": st.column_config.ProgressColumn(format="%.3f", min_value=0.0, max_value=1.0)
        },
    )


def _step(model: LoadedModel, found: Generation) -> int:
    """The generated token that is looked at."""
    names = [f"{number + 1} {printable(token)}" for number, token in enumerate(found.tokens)]
    if len(names) == 1:
        return 0
    chosen = st.select_slider("Step", names, key=f"step {model.name}")
    return names.index(chosen)
