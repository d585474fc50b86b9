"""Neurons: what one of a feed-forward part raises in the vocabulary, and where it is active."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pandas as pd
import streamlit as st

from workbench.analysis.neurons import Firing, promoted_tokens, top_activations
from workbench.citations import papers
from workbench.dashboard.inspection.texts import Texts
from workbench.dashboard.resources import identity, load_code, over_sample
from workbench.dashboard.show import cite, show_table
from workbench.models import Kind, LoadedModel
from workbench.text import printable
from workbench.trace import structure_of

__all__ = ["neurons_tab"]


def neurons_tab(models: Sequence[LoadedModel], texts: Texts) -> Callable[[LoadedModel], None]:
    """Layer and number of the neuron; what is returned draws one model."""
    depth = max(_depth(model) for model in models)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        layer = st.selectbox("Layer", range(depth), key="neuronlayer", bind="query-params", width=110)
        neuron = st.number_input("Neuron", 0, key="neuron", bind="query-params", width=140)
    st.caption(
        "Where its value is largest, in the text above and the passages of lambada_sample, truncated to what the model "
        "reads. Of an encoder-decoder, the encoder's neurons."
    )
    return lambda model: _show(model, texts.text, layer or 0, int(neuron or 0))


def _depth(model: LoadedModel) -> int:
    """Layers of the stack that :func:`top_activations` reads: of an encoder-decoder, its encoder."""
    structure = structure_of(model.model)
    return structure.layers[next(iter(structure.roots))]


@st.cache_resource(
    max_entries=16, ttl=600, show_spinner="Reading the passages …", hash_funcs={LoadedModel: identity}
)
def _active(model: LoadedModel, text: str, layer: int, neuron: int) -> list[Firing]:
    with over_sample(model) as texts:
        return top_activations(model, [text, *texts], layer, [neuron])[0]


def _show(model: LoadedModel, text: str, layer: int, neuron: int) -> None:
    code = (
        "import workbench\nfrom workbench.analysis.neurons import promoted_tokens, top_activations\n"
        f"from workbench.data import read_lambada\n\n{load_code(model)}"
        f"texts = [{text!r}, *(passage.text for passage in read_lambada('lambada_sample'))]\n"
    )
    table = pd.DataFrame([_row(model, firing) for firing in _active(model, text, layer, neuron)])
    call = f"top_activations(model, texts, {layer}, [{neuron}])[0]\n"
    show_table(table, f"activations {model.name}", "Where it is most active", code + call)
    # Promotion is of the decoder's neurons, which those of an encoder-decoder's encoder are not.
    if model.kind is Kind.CAUSAL:
        st.markdown("**What its output raises and lowers in the vocabulary** (logits, at activation 1)")
        found = promoted_tokens(model, layer, neuron)
        raised, lowered = (
            pd.DataFrame(
                [(_spelled(model, token), value) for token, value in pairs], columns=[name, f"{name} by"]
            )
            for name, pairs in (("raised", found.raised), ("lowered", found.lowered))
        )
        call = f"promoted_tokens(model, {layer}, {neuron})\n"
        show_table(
            raised.join(lowered), f"promotion {model.name}", "What its output raises and lowers", code + call
        )
    cite(papers("analysis", "neurons"))


def _row(model: LoadedModel, firing: Firing) -> dict[str, object]:
    before, token, after = (
        model.tokenizer.convert_tokens_to_string(list(part))
        for part in (firing.before, (firing.token,), firing.after)
    )
    return {"activation": firing.activation, "before": before, "token": token, "after": after}


def _spelled(model: LoadedModel, token: str) -> str:
    """As it reads in a text, where it is a whole number of characters."""
    return str(model.tokenizer.convert_tokens_to_string([token])) or printable(token)
