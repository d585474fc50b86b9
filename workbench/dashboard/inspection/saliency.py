"""Saliency: which tokens a prediction rests on, by several methods, with how far to believe them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import streamlit as st

from workbench.analysis.faithfulness import MEASURES
from workbench.analysis.saliency import METHODS, Attribution, SaliencyOptions, attribute
from workbench.citations import papers
from workbench.dashboard.inspection.predictions import target_fields
from workbench.dashboard.inspection.texts import Texts
from workbench.dashboard.jobs import Job, JobState
from workbench.dashboard.jobs_panel import shown_below, start_job
from workbench.dashboard.resources import identity, load_code, prompt_arguments, stoppable
from workbench.dashboard.show import cite, plain, show_table, show_view, theme
from workbench.errors import WorkbenchWarning
from workbench.figures import heat_map
from workbench.figures.saliency import attribution_view, compare_attributions
from workbench.models import LoadedModel
from workbench.trace import Text

__all__ = ["saliency_tab"]

_FIRST = ("integrated_gradients", "occlusion", "random")


@dataclass(frozen=True)
class _Choice:
    """What is asked of the methods."""

    text: Text
    target: str | None
    contrast: str | None
    methods: tuple[str, ...]
    keep: bool

    @property
    def named(self) -> dict[str, str]:
        """Target and contrast, where they are given."""
        return {k: v for k, v in (("target", self.target), ("contrast", self.contrast)) if v}

    @property
    def code(self) -> str:
        """The arguments that say the same in Python, each after a comma."""
        kept = ", options=SaliencyOptions(keep_first=True)" if self.keep else ""
        return "".join(f", {k}={v!r}" for k, v in self.named.items()) + kept


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
        if not methods:
            st.info("Choose at least one method.")
            return
        choice = _Choice(texts.whole, target, contrast, tuple(methods), keep)
        _show(model, choice, words)
        if doubt:
            _doubt(model, choice)

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
        options = SaliencyOptions(keep_first=keep)
        with stoppable(model):
            found = attribute(model, text, method, target=target, contrast=contrast, options=options)
    said = [str(w.message) for w in caught if issubclass(w.category, WorkbenchWarning)]
    return found, " ".join([*said, *([found.note] if found.note else [])])


def _show(model: LoadedModel, choice: _Choice, words: bool) -> None:
    found = []
    for method in choice.methods:
        scores, warning = _scores(model, choice.text, method, choice.target, choice.contrast, choice.keep)
        found.append(scores.words() if words else scores)
        if warning:
            st.caption(plain(warning))
    code = (
        "import workbench\nfrom workbench.analysis.saliency import SaliencyOptions\n"
        "from workbench.figures.saliency import compare_attributions\n\n"
        f"{load_code(model)}"
        f"text = {choice.text!r}\n"
        f"found = [workbench.attribute(model, text, m{choice.code}, words={words}) for m in {choice.methods!r}]\n"
    )
    st.caption(plain(f"{found[0].target} = {found[0].value:.4g}"))
    view = compare_attributions(found, display_mode=theme())
    show_view(view, f"saliency {model.name}", f"{code}compare_attributions(found)\n")
    st.caption("*random* knows nothing: what looks no better than it says nothing about the model.")
    contrast = papers("analysis", "contrastive explanation") if choice.contrast else ()
    cite((*papers("saliency method", *choice.methods), *contrast))
    for number, one in enumerate(found):
        with st.expander(f"{one.method} in colours"):
            show_view(
                attribution_view(one, display_mode=theme()),
                f"{one.method} {model.name}",
                f"{code}found[{number}]\n",
            )


def _doubt(model: LoadedModel, choice: _Choice) -> None:
    """Measures of the methods, once the job that the toggle started has them."""
    st.markdown("**How far to believe them** (for this text alone)")
    kept = st.session_state.setdefault("doubts", {})
    key = (identity(model), choice)
    if key not in kept:
        kept[key] = _measure(model, choice)
        st.rerun()  # the panel above shows it
    job = kept[key]
    if job is not None and job.answer is not None:
        shown_below(job)
        _examined(job.answer["evaluation"], model, choice)
    elif job is not None and job.state is JobState.RUNNING:
        st.caption("Removing tokens and shuffling weights; how far it is stands above.")
    elif st.button("Measure again", key=f"doubt {model.name}"):
        del kept[key]
        st.rerun()


def _measure(model: LoadedModel, choice: _Choice) -> Job | None:
    options = [
        "--evaluate",
        f"--method={','.join(choice.methods)}",
        f"--implementation={model.implementation}",
    ]
    options += [f"--{k}={v}" for k, v in choice.named.items()]
    options += ["--keep-first"] if choice.keep else []
    options += prompt_arguments(model)
    first, *pair = choice.text if isinstance(choice.text, tuple) else (str(choice.text),)
    options += [f"--pair={other}" for other in pair]
    title = f"how far to believe saliency of {Path(model.name).name}"
    return start_job(title, "attribute", options, model.name, first, stores=False)


def _examined(
    found: dict[str, dict[str, dict[str, float | None]]], model: LoadedModel, choice: _Choice
) -> None:
    code = (
        "import workbench\nfrom workbench.analysis.faithfulness_examine import examine\n"
        "from workbench.analysis.saliency import SaliencyOptions\n\n"
        f"{load_code(model)}found = examine(model, {choice.text!r}, {choice.methods!r}{choice.code})\n"
    )
    measures, agreement, randomisation = (
        pd.DataFrame.from_dict(table, orient="index", dtype=float) for table in found.values()
    )
    table = measures.rename_axis("method").reset_index()
    show_table(table, f"faithfulness {model.name}", "Faithfulness", f"{code}found.measures.to_frame()\n")
    with st.expander("What the measures are"):
        for measure in measures:
            st.markdown(f"- **{plain(str(measure))}**: {plain(MEASURES[str(measure)].about)}")
        cite(papers("faithfulness measure", *map(str, measures)))
    for name, title, frame, across in (
        ("agreement", "Agreement of methods", agreement, "other"),
        ("randomisation", "Scores under randomised weights", randomisation, "randomised down to"),
    ):
        view = heat_map(
            frame.to_numpy(),
            [str(label) for label in frame.index],
            [str(label) for label in frame.columns],
            axes=("method", across),
            unit="Spearman's rho",
            signed=True,
            limits=(-1.0, 1.0),
            title=title,
            display_mode=theme(),
        )
        show_view(view, f"{name} {model.name}", f"{code}found.{name}\n")
