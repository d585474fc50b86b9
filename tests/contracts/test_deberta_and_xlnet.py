"""DeBERTa's disentangled attention and XLNet's content stream in every analysis, against transformers' own outputs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers as hf

import workbench
from probes.features import extract
from tests.helpers import assert_near
from tests.unit.trace import tiny
from workbench.models import Kind, LoadedModel
from workbench.scoring import pseudo_log_likelihood
from workbench.trace import Route, structure_of, trace

TEXT = "the cat sat on the mat"
SIZES = {"vocab_size": len(tiny.tokenizer(True)), "num_labels": 2}
STACK = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
RELATIVE = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "max_relative_positions": 16}
CONFIGS = {
    "deberta": lambda: hf.DebertaConfig(**SIZES, **STACK, **RELATIVE, pooler_hidden_size=16),
    "deberta-v2": lambda: hf.DebertaV2Config(**SIZES, **STACK, **RELATIVE, pooler_hidden_size=16),
    "xlnet": lambda: hf.XLNetConfig(**SIZES, d_model=16, n_layer=2, n_head=2, d_inner=32),
}


def built(name: str, auto: str, kind: Kind) -> LoadedModel:
    """With weights that make attention uneven."""
    model = tiny.build(auto, CONFIGS[name]())
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(std=0.3, generator=torch.Generator().manual_seed(parameter.numel()))
    return tiny.loaded(model, kind, special=True)


def own(model: LoadedModel, **record: bool) -> Any:
    read = model.tokenizer(TEXT, return_tensors="pt")
    with torch.no_grad():
        return model.model(**read, **record)


@pytest.mark.parametrize("name", CONFIGS)
def test_maps_states_and_features_are_those_of_the_model(name: str) -> None:
    model = built(name, "AutoModel", Kind.ENCODER)
    assert structure_of(model.model).route is Route.OUTPUTS
    (found,) = trace(model, [TEXT], {"attention", "hidden"}).texts
    plain = own(model, output_attentions=True, output_hidden_states=True)
    assert_near(found.attention, torch.stack([layer[0] for layer in plain.attentions]), 1e-5)
    assert found.attention.std() > 0.02
    assert_near(found.hidden[-1], plain.last_hidden_state[0], 1e-5)
    features = extract(model, [TEXT], pool="first")
    assert_near(features.layer(2), plain.last_hidden_state[0, 1:-1], 1e-5)


@pytest.mark.parametrize("name", ["deberta", "deberta-v2"])
def test_pseudo_likelihood_hides_one_token_at_a_time(name: str) -> None:
    model = built(name, "AutoModelForMaskedLM", Kind.MASKED)
    (found,) = pseudo_log_likelihood(model, [TEXT])
    read = model.tokenizer(TEXT, return_tensors="pt")
    expected = []
    for place in range(1, read.input_ids.shape[1] - 1):
        hidden = read.input_ids.clone()
        hidden[0, place] = model.tokenizer.mask_token_id
        with torch.no_grad():
            logits = model.model(**{**read, "input_ids": hidden}).logits[0, place]
        expected.append(float(logits.log_softmax(-1)[read.input_ids[0, place]]))
    assert_near(found.token_log_probabilities, expected, 1e-5)


@pytest.mark.parametrize("name", CONFIGS)
def test_integrated_gradients_add_up_to_what_they_explain(name: str) -> None:
    model = built(name, "AutoModelForSequenceClassification", Kind.CLASSIFIER)
    found = workbench.attribute(model, TEXT, method="integrated_gradients", target=1)
    assert abs(float(found.delta)) < 0.01


@pytest.mark.parametrize("name", CONFIGS)
def test_the_self_check_passes(name: str) -> None:
    assert workbench.doctor(built(name, "AutoModel", Kind.ENCODER)).verdict != "fail"
