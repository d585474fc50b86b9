"""Context: what it costs a model when words of the text are cut, shuffled or dropped."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st

from workbench.analysis.context import (
    ContextPoint,
    ContextSettings,
    ToleranceOf,
    context_examples,
    context_points,
    effective_length,
    items_of_text,
    points_frame,
)
from workbench.citations import papers
from workbench.dashboard.inspection.texts import Texts
from workbench.dashboard.jobs_panel import start_job
from workbench.dashboard.resources import identity, load_code, prompt_arguments, stoppable
from workbench.dashboard.show import cite, plain, show_table, show_view, theme
from workbench.errors import WorkbenchError
from workbench.estimate import Estimate
from workbench.figures.plots import context_curves
from workbench.models import LoadedModel

__all__ = ["context_tab"]

_WORDS = 20  # predicted
_QUANTITIES = ("loss", "increase", "accuracy")


def context_tab(models: Sequence[LoadedModel], texts: Texts) -> Callable[[LoadedModel], None]:
    """Which quantity; what is returned draws one model."""
    quantity = st.segmented_control(
        "Quantity", _QUANTITIES, default="loss", required=True, key="context", bind="query-params"
    )
    return lambda model: _show(model, texts.text, quantity or "loss")


@st.cache_resource(
    max_entries=8, ttl=600, show_spinner="Changing the context …", hash_funcs={LoadedModel: identity}
)
def _measured(model: LoadedModel, text: str) -> tuple[list[ContextPoint], dict[str, Estimate | None]]:
    items = items_of_text(text, count=_WORDS)
    with stoppable(model), model.lock:
        examples = context_examples(model, items, ContextSettings(source="text").conditions())
    return context_points(examples), {str(of): effective_length(examples, of=of) for of in ToleranceOf}


def _show(model: LoadedModel, text: str, quantity: str) -> None:
    st.caption(
        f"Up to {_WORDS} content words of the second half are predicted from what is before them; a text of fifty "
        "words or more says most."
    )
    cite(papers("analysis", "context"))
    try:
        points, reach = _measured(model, text)
    except WorkbenchError as error:
        st.error(plain(str(error)))
        points, reach = [], {}
    if points:
        _curves(model, text, quantity, points, reach)
    if st.button("Measure over lambada_sample as a job", key=f"context {model.name}"):
        start_job(
            f"context of {model.name}",
            "context",
            ["--task=lambada_sample", *prompt_arguments(model)],
            model.name,
        )
        st.rerun()


def _curves(
    model: LoadedModel,
    text: str,
    quantity: str,
    points: list[ContextPoint],
    reach: dict[str, Estimate | None],
) -> None:
    code = (
        "import workbench\nfrom workbench.analysis.context import (\n"
        "    ContextSettings, context_examples, context_points, items_of_text\n)\n"
        "from workbench.figures.plots import context_curves\n\n"
        f"{load_code(model)}items = items_of_text({text!r}, count={_WORDS})\n"
        "examples = context_examples(model, items, ContextSettings(source='text').conditions())\n"
        f"context_curves(context_points(examples), {quantity!r})\n"
    )
    found = [f"the {of} {length.value:g}" for of, length in reach.items() if length is not None]
    if found:
        st.markdown(plain(f"Words needed to be within 1 % of the full context: for {', for '.join(found)}"))
    view = context_curves(points, quantity, display_mode=theme())
    show_view(view, f"context {model.name}", code)
    with st.expander("Numbers"):
        show_table(points_frame(points), f"context numbers {model.name}", "Context curves", code)
