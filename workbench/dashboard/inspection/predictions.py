"""Predictions: the next or masked token, and what every layer would say there (logit lens, trajectory)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pandas as pd
import streamlit as st

from workbench.analysis.lens import LensReading, logit_lens
from workbench.citations import papers
from workbench.dashboard.inspection.texts import Texts
from workbench.dashboard.resources import identity, load_code, stoppable
from workbench.dashboard.show import cite, show_table, show_view, theme
from workbench.figures.lens import lens_grid, lens_trajectory
from workbench.models import LoadedModel
from workbench.trace import Text

__all__ = ["predictions_tab", "target_fields"]

_TOP = 10


def predictions_tab(models: Sequence[LoadedModel], texts: Texts) -> Callable[[LoadedModel], None]:
    """Fields for a target and a contrast; what is returned draws one model."""
    target, contrast = target_fields("followed through the layers; empty: the model's own prediction")
    return lambda model: _show(model, texts, target, contrast)


def target_fields(what: str) -> tuple[str | None, str | None]:
    """Target and contrast, ``None`` where empty. A space in front counts for most decoders."""
    with st.container(horizontal=True):
        target = st.text_input(
            "Target",
            key="aim",
            bind="query-params",
            persist_state="session",
            help=f"A word {what}.",
            max_chars=200,
        )
        contrast = st.text_input(
            "Rather than", key="contrast", bind="query-params", persist_state="session", max_chars=200
        )
    return target or None, contrast or None


@st.cache_resource(
    max_entries=8, ttl=600, show_spinner="Reading every layer …", hash_funcs={LoadedModel: identity}
)
def _read(
    model: LoadedModel, text: Text, target: str | None, contrast: str | None, written: str | None
) -> LensReading:
    with stoppable(model), model.lock:
        return logit_lens(model, text, target=target, contrast=contrast, target_text=written, top=_TOP)


def _show(model: LoadedModel, texts: Texts, target: str | None, contrast: str | None) -> None:
    written = texts.target if model.config.is_encoder_decoder else None
    reading = _read(model, texts.whole, target, contrast, written)
    arguments = [repr(texts.whole)]
    given = {"target": target, "contrast": contrast, "target_text": written}
    arguments += [f"{name}={value!r}" for name, value in given.items() if value]
    code = (
        "import workbench\nfrom workbench.analysis.lens import logit_lens\n"
        "from workbench.figures.lens import lens_grid, lens_trajectory\n\n"
        f"{load_code(model)}reading = logit_lens(model, {', '.join(arguments)})\n"
    )
    place = _place(model, reading)
    _candidates(model, reading, place, code)
    show_view(lens_grid(reading, display_mode=theme()), f"lens {model.name}", f"{code}lens_grid(reading)\n")
    view = lens_trajectory(reading, place, display_mode=theme())
    show_view(view, f"trajectory {model.name}", f"{code}lens_trajectory(reading, {place})\n")
    cite(papers("analysis", "logit lens", *(["contrastive explanation"] if contrast else [])))


def _place(model: LoadedModel, reading: LensReading) -> int:
    """Which position is looked at: the mask of a masked model, else the last, unless another is chosen."""
    masks = [i for i, token in enumerate(reading.tokens) if token == model.tokenizer.mask_token]
    default = masks[0] if masks else len(reading.tokens) - 1
    return st.selectbox(
        "Position",
        range(len(reading.tokens)),
        index=default,
        format_func=lambda i: f"{i} {reading.tokens[i]}",
        key=f"position {model.name}",
        width=220,
    )


def _candidates(model: LoadedModel, reading: LensReading, place: int, code: str) -> None:
    st.markdown("**The likeliest tokens there**")
    table = pd.DataFrame(
        {
            "token": reading.top_tokens[-1][place],
            "probability": [float(p) for p in reading.top_probabilities[-1, place]],
        }
    )
    bar = st.column_config.ProgressColumn(format="%.3f", min_value=0.0, max_value=1.0)
    show_table(
        table,
        f"candidates {model.name}",
        "The likeliest tokens",
        f"{code}reading.top_tokens[-1][{place}], reading.top_probabilities[-1, {place}]\n",
        column_config={"probability": bar},
        height=212,
    )
