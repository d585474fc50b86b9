"""Saliency: which tokens a prediction rests on, by several methods, with how far to believe them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import streamlit as st

from workbench.analysis.saliency import METHODS, Attribution, AttributionWarning, attribute
from workbench.dashboard.inspection.predictions import target_fields
from workbench.dashboard.inspection.texts import Texts
from workbench.dashboard.resources import identity, load_code
from workbench.dashboard.show import plain, show_view, theme
from workbench.figures.saliency import attribution_view, compare_attributions
from workbench.models import LoadedModel
from workbench.trace import Text

__all__ = ["saliency_tab"]

_FIRST = ("integrated_gradients", "occlusion", "random")


def saliency_tab(models: Sequence[LoadedModel], texts: Texts) -> Callable[[LoadedModel], None]:
    """Fields for target, contrast and methods; what is returned draws one model."""
    target, contrast = target_fields("or class that is explained; empty: the model's own prediction")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        methods = st.multiselect(
            "Methods",
            METHODS.names(),
            default=[name for name in _FIRST if name in METHODS.names()],
            key="methods",
            bind="query-params",
        )
        words = st.toggle("Whole words", key="merge", bind="query-params")
    return lambda model: _show(model, texts, target, contrast, tuple(methods), words)


@st.cache_resource(
    max_entries=32, ttl=600, show_spinner="Scoring the tokens …", hash_funcs={LoadedModel: identity}
)
def _scores(
    model: LoadedModel, text: Text, method: str, target: str | None, contrast: str | None
) -> tuple[Attribution, str]:
    """The scores, and what the method warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = attribute(model, text, method, target=target, contrast=contrast)
    return found, " ".join(str(w.message) for w in caught if issubclass(w.category, AttributionWarning))


def _show(
    model: LoadedModel,
    texts: Texts,
    target: str | None,
    contrast: str | None,
    methods: tuple[str, ...],
    words: bool,
) -> None:
    if not methods:
        st.info("Choose at least one method.")
        return
    found = []
    for method in methods:
        scores, warning = _scores(model, texts.whole, method, target, contrast)
        found.append(scores.words() if words else scores)
        if warning:
            st.caption(plain(warning))
    given = "".join(f", {k}={v!r}" for k, v in (("target", target), ("contrast", contrast)) if v)
    code = (
        "import workbench\nfrom workbench.figures.saliency import compare_attributions\n\n"
        f"{load_code(model)}"
        f"text = {texts.whole!r}\n"
        f"found = [workbench.attribute(model, text, m{given}, words={words}) for m in {methods!r}]\n"
    )
    st.caption(plain(f"{found[0].target} = {found[0].value:.4g}"))
    view = compare_attributions(found, display_mode=theme())
    show_view(view, f"saliency {model.name}", f"{code}compare_attributions(found)\n")
    st.caption("*random* knows nothing: what looks no better than it says nothing about the model.")
    for number, one in enumerate(found):
        with st.expander(f"{one.method} in colours"):
            show_view(
                attribution_view(one, display_mode=theme()),
                f"{one.method} {model.name}",
                f"{code}found[{number}]\n",
            )
