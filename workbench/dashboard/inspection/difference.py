"""Difference: what a model does otherwise with another text, head by head and layer by layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st

from challenge_sets.explanations import Explanation, FailingCase, explain
from workbench.dashboard.inspection.texts import Texts
from workbench.dashboard.resources import identity, load_code, stoppable
from workbench.dashboard.show import plain, show_view, theme
from workbench.figures import Curve, View, curve_plot, head_statistics_grid, highlighted_text
from workbench.models import LoadedModel
from workbench.statistics import Statistic

__all__ = ["difference_tab"]


def difference_tab(models: Sequence[LoadedModel], texts: Texts) -> Callable[[LoadedModel], None]:
    """Draws one model."""
    return lambda model: _show(model, texts)


@st.cache_resource(max_entries=8, ttl=600, show_spinner="Comparing …", hash_funcs={LoadedModel: identity})
def _explained(model: LoadedModel, good: str, bad: str) -> Explanation:
    with stoppable(model):
        return explain(FailingCase("the pair", good, bad), model)


def _show(model: LoadedModel, texts: Texts) -> None:
    if not texts.other.strip():
        st.info("Give another text to compare with: one that differs in a word, say.")
        return
    found = _explained(model, texts.text, texts.other)
    code = (
        "import workbench\nfrom challenge_sets.explanations import FailingCase, explain\n\n"
        f"{load_code(model)}"
        f"explain(FailingCase('pair', {texts.text!r}, {texts.other!r}), model)"
    )
    heads = ", ".join(
        f"layer {layer} head {head} ({value:.2f})" for layer, head, value in found.top_heads[:3]
    )
    st.markdown(f"Attention differs most in {heads}.")
    show_view(_heads(found), f"difference of heads {model.name}", f"{code}.attention_difference\n")
    if found.saliency.scores:
        show_view(_saliency(found), f"difference of saliency {model.name}", f"{code}.saliency\n")
    elif found.saliency.reason:
        st.caption(plain(f"No difference of saliency: {found.saliency.reason}"))
    if found.margins:
        st.markdown(plain(_parting(found)))
        show_view(_margins(found), f"margins {model.name}", f"{code}.margins\n")
    else:
        st.caption(f"Margins by layer need a causal model; this one is of kind {model.kind}.")


def _parting(found: Explanation) -> str:
    last = found.margins[-1]
    preferred = "the text" if last > 0 else "the other text"
    return (
        f"At the end the model finds {preferred} more probable, by {abs(last):.2f} nats from the first difference "
        f"on; that is so from layer {found.parting_layer} of {len(found.margins) - 1}."
    )


def _heads(found: Explanation) -> View:
    statistic = Statistic(
        name="difference of attention",
        unit="share",
        values=found.attention_difference,
        axes=("layer", "head"),
        note="Half the absolute difference of attention between the tokens that both texts have, averaged over them.",
    )
    return head_statistics_grid(statistic, display_mode=theme())


def _saliency(found: Explanation) -> View:
    tokens, scores = zip(*found.saliency.scores, strict=True)
    return highlighted_text(
        tokens,
        scores,
        note=f"{found.saliency.method}: {found.saliency.question}; blue speaks for the text, vermillion for the other.",
        title="Difference of saliency",
        display_mode=theme(),
    )


def _margins(found: Explanation) -> View:
    layers = list(range(len(found.margins)))
    return curve_plot(
        [
            Curve(name="margin", x=layers, y=found.margins),
            Curve(name="neither", x=[0, layers[-1]], y=[0.0, 0.0]),
        ],
        y="margin (nats)",
        title="Where predictions part (logit lens)",
        note="Log-probability of the text minus the other's: above zero the text is more probable. "
        "Layer 0 is the embeddings.",
        display_mode=theme(),
    )
