"""Patching: which activations of the text bring its answer back in the other text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st

from workbench.analysis.patching import PatchSite, activation_patching, patch_pair
from workbench.citations import papers
from workbench.dashboard.inspection.predictions import target_fields
from workbench.dashboard.inspection.texts import Texts
from workbench.dashboard.resources import identity, load_code, stoppable
from workbench.dashboard.show import cite, plain, show_view, theme
from workbench.figures.patching import patching_grid
from workbench.models import LoadedModel
from workbench.statistics import Statistic

__all__ = ["patching_tab"]

_MOST = 128  # tokens; a grid runs the model once a layer and token


def patching_tab(models: Sequence[LoadedModel], texts: Texts) -> Callable[[LoadedModel], None]:
    """Fields for target, contrast and site; what is returned draws one model."""
    target, contrast = target_fields("that the text makes likely, and the other text less")
    site = st.segmented_control(
        "What is exchanged",
        [str(s) for s in PatchSite],
        default="residual",
        required=True,
        key="site",
        bind="query-params",
    )
    return lambda model: _show(model, texts, target, contrast, site or "residual")


@st.cache_resource(max_entries=8, ttl=600, show_spinner="Patching …", hash_funcs={LoadedModel: identity})
def _patched(
    model: LoadedModel, clean: str, corrupted: str, target: str, contrast: str | None, site: str
) -> tuple[Statistic, str]:
    with stoppable(model), model.lock:
        pair = patch_pair(model, clean, corrupted, target, contrast)
        return activation_patching(pair, site), pair.about


def _show(model: LoadedModel, texts: Texts, target: str | None, contrast: str | None, site: str) -> None:
    if not texts.other.strip() or target is None:
        st.info(
            "Give another text of as many tokens, and a target that the text makes likely: "
            "“The keys to the cabinet”, “The key to the cabinet”, target “ are” rather than “ is”, say."
        )
        return
    if max(map(len, (texts.text, texts.other))) > 8 * _MOST:
        st.warning(f"Patching runs the model for every layer and token; give texts of up to {_MOST} tokens.")
        return
    effects, about = _patched(model, texts.text, texts.other, target, contrast, site)
    ending = "" if contrast is None else f", {contrast!r}"
    code = (
        "import workbench\nfrom workbench.analysis.patching import activation_patching, patch_pair\n"
        "from workbench.figures.patching import patching_grid\n\n"
        f"{load_code(model)}"
        f"pair = patch_pair(model, {texts.text!r}, {texts.other!r}, {target!r}{ending})\n"
        f"patching_grid(activation_patching(pair, {site!r}))\n"
    )
    st.caption(plain(about))
    show_view(patching_grid(effects, display_mode=theme()), f"patching {model.name}", code)
    cite(papers("analysis", "activation patching"))
