"""Heads: a statistic of every head, how much the loss depends on each, and which of them attend alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st

from workbench.analysis.head_clusters import HeadClusters, head_clusters
from workbench.analysis.heads import HeadStatistics, head_statistics
from workbench.analysis.importance import head_importance
from workbench.citations import papers
from workbench.dashboard.inspection.texts import Texts
from workbench.dashboard.resources import identity, load_code, over_sample
from workbench.dashboard.show import cite, show_view, theme
from workbench.figures import head_clusters_view, head_statistics_grid
from workbench.models import LoadedModel
from workbench.statistics import Statistic

__all__ = ["heads_tab"]

_PARTS = {"statistics": "head statistics", "importance": "head importance", "clusters": "head clusters"}
_TEXTS = 20  # of the sample


def heads_tab(models: Sequence[LoadedModel], texts: Texts) -> Callable[[LoadedModel], None]:
    """What of the heads; what is returned draws one model."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        part = st.segmented_control(
            "Of the heads",
            list(_PARTS),
            default="statistics",
            required=True,
            key="heads",
            bind="query-params",
        )
        count = None
        if part == "clusters":
            count = st.number_input("Clusters", 1, 50, 6, key="clusters", bind="query-params", width=120)
    st.caption(f"Over {_TEXTS} passages of lambada_sample, truncated to what the model reads.")

    def show(model: LoadedModel) -> None:
        code = (
            f"import workbench\nfrom workbench.data import read_lambada\n\n{load_code(model)}"
            f"texts = [passage.text for passage in read_lambada('lambada_sample')][:{_TEXTS}]\n"
        )
        chosen = part or "statistics"
        if chosen == "clusters":
            _clusters(model, int(count or 6), code)
        elif chosen == "importance":
            _importance(model, code)
        else:
            _statistics(model, "statistic" if model.name == models[0].name else "secondstatistic", code)
        cite(papers("analysis", _PARTS[chosen]))

    return show


@st.cache_resource(
    max_entries=6, ttl=600, show_spinner="Measuring the heads …", hash_funcs={LoadedModel: identity}
)
def _measured(model: LoadedModel) -> HeadStatistics:
    with over_sample(model) as texts:
        return head_statistics(model, texts[:_TEXTS])


@st.cache_resource(
    max_entries=6, ttl=600, show_spinner="Measuring the heads …", hash_funcs={LoadedModel: identity}
)
def _important(model: LoadedModel) -> Statistic:
    with over_sample(model) as texts:
        return head_importance(model, texts[:_TEXTS])


@st.cache_resource(
    max_entries=6, ttl=600, show_spinner="Comparing the heads …", hash_funcs={LoadedModel: identity}
)
def _alike(model: LoadedModel, count: int) -> HeadClusters:
    with over_sample(model) as texts:
        return head_clusters(model, texts[:_TEXTS], count)


def _statistics(model: LoadedModel, key: str, code: str) -> None:
    found = _measured(model)
    name = st.selectbox("Statistic", list(found.statistics), key=key, bind="query-params", width=320)
    call = "from workbench.analysis.heads import head_statistics\n\n"
    call += f"head_statistics(model, texts)[{name!r}].figure()\n"
    show_view(head_statistics_grid(found[name], display_mode=theme()), f"heads {model.name}", code + call)


def _importance(model: LoadedModel, code: str) -> None:
    call = "from workbench.analysis.importance import head_importance\n\nhead_importance(model, texts).figure()\n"
    view = head_statistics_grid(_important(model), display_mode=theme())
    show_view(view, f"importance {model.name}", code + call)


def _clusters(model: LoadedModel, count: int, code: str) -> None:
    call = "from workbench.analysis.head_clusters import head_clusters\n\n"
    call += f"head_clusters(model, texts, {count}).figure()\n"
    view = head_clusters_view(_alike(model, count), display_mode=theme())
    show_view(view, f"clusters {model.name}", code + call)
