"""Saliency: which tokens a prediction rests on, by several methods, with how far to believe them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import pandas as pd
import streamlit as st

from workbench.analysis.faithfulness import MEASURES
from workbench.analysis.faithfulness_examine import Examination, examine
from workbench.analysis.saliency import METHODS, Attribution, AttributionWarning, Options, attribute
from workbench.dashboard.inspection.predictions import target_fields
from workbench.dashboard.inspection.texts import Texts
from workbench.dashboard.resources import identity, load_code
from workbench.dashboard.show import plain, show_table, show_view, theme
from workbench.figures import heat_map
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
        keep = st.toggle(
            "Keep the first token",
            key="keep",
            bind="query-params",
            help="Leave a decoder's first token, its attention sink, in place: it then gets no score.",
        )
        doubt = st.toggle(
            "How far to believe them",
            key="doubt",
            bind="query-params",
            help="Faithfulness of each method beside the random floor, and its scores under shuffled weights.",
        )

    def show(model: LoadedModel) -> None:
        _show(model, texts, target, contrast, tuple(methods), words, keep)
        if doubt and methods:
            _doubt(model, texts, target, contrast, tuple(methods))

    return show


@st.cache_resource(
    max_entries=32, ttl=600, show_spinner="Scoring the tokens …", hash_funcs={LoadedModel: identity}
)
def _scores(
    model: LoadedModel, text: Text, method: str, target: str | None, contrast: str | None, keep: bool
) -> tuple[Attribution, str]:
    """The scores, and what the method warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        options = Options(keep_first=keep)
        found = attribute(model, text, method, target=target, contrast=contrast, options=options)
    return found, " ".join(str(w.message) for w in caught if issubclass(w.category, AttributionWarning))


def _show(
    model: LoadedModel,
    texts: Texts,
    target: str | None,
    contrast: str | None,
    methods: tuple[str, ...],
    words: bool,
    keep: bool,
) -> None:
    if not methods:
        st.info("Choose at least one method.")
        return
    found = []
    for method in methods:
        scores, warning = _scores(model, texts.whole, method, target, contrast, keep)
        found.append(scores.words() if words else scores)
        if warning:
            st.caption(plain(warning))
    given = "".join(f", {k}={v!r}" for k, v in (("target", target), ("contrast", contrast)) if v)
    given += ", options=Options(keep_first=True)" if keep else ""
    code = (
        "import workbench\nfrom workbench.analysis.saliency import Options\n"
        "from workbench.figures.saliency import compare_attributions\n\n"
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


@st.cache_resource(
    max_entries=8,
    ttl=600,
    show_spinner="Removing tokens, shuffling weights …",
    hash_funcs={LoadedModel: identity},
)
def _examined(
    model: LoadedModel, text: Text, methods: tuple[str, ...], target: str | None, contrast: str | None
) -> Examination:
    with model.lock:  # weights are shuffled meanwhile
        return examine(model, text, methods, target=target, contrast=contrast)


def _doubt(
    model: LoadedModel, texts: Texts, target: str | None, contrast: str | None, methods: tuple[str, ...]
) -> None:
    found = _examined(model, texts.whole, methods, target, contrast)
    given = "".join(f", {k}={v!r}" for k, v in (("target", target), ("contrast", contrast)) if v)
    code = (
        "import workbench\nfrom workbench.analysis.faithfulness_examine import examine\n\n"
        f"{load_code(model)}found = examine(model, {texts.whole!r}, {methods!r}{given})\n"
    )
    names, columns = found.measures.labels["method"], found.measures.labels["measure"]
    table = pd.DataFrame(found.measures.values, columns=[str(c) for c in columns])
    table.insert(0, "method", [str(name) for name in names])
    st.markdown("**How far to believe them** (for this text alone)")
    show_table(table, f"faithfulness {model.name}", "Faithfulness", f"{code}found.measures.to_frame()\n")
    with st.expander("What the measures are"):
        for measure in columns:
            st.markdown(f"- **{plain(str(measure))}**: {plain(MEASURES[str(measure)].about)}")
    for statistic, what in ((found.agreement, "agreement"), (found.randomisation, "randomisation")):
        view = heat_map(
            statistic.values,
            [str(label) for label in statistic.labels[statistic.axes[0]]],
            [str(label) for label in statistic.labels[statistic.axes[1]]],
            axes=(statistic.axes[0], statistic.axes[1]),
            unit=statistic.unit,
            signed=True,
            limits=(-1.0, 1.0),
            title=statistic.name[:1].upper() + statistic.name[1:],
            display_mode=theme(),
        )
        show_view(view, f"{what} {model.name}", f"{code}found.{what}\n")
