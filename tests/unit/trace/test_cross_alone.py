"""Models whose decoder attends to the encoder alone: traced, drawn, scored, probed, or refused in one line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import workbench.models.auto  # noqa: F401  (the Auto classes learn the built-in models)
from probes.features import extract
from tests.unit.trace.tiny import SIZE, build, loaded
from workbench.analysis.heads import head_statistics
from workbench.analysis.importance import head_importance
from workbench.analysis.lens import logit_lens
from workbench.analysis.patching import Patch, PatchSite, patch_pair, patched_values
from workbench.analysis.saliency import attribute
from workbench.errors import TraceError
from workbench.figures.view_options import ViewKind, ViewOptions, trace_for, view_of
from workbench.models import Kind, LoadedModel
from workbench.models.ancestors.convolutional_configuration import ConvolutionalConfig
from workbench.models.ancestors.recurrent_configuration import RecurrentConfig
from workbench.models.auto import register
from workbench.models.built_in import BuiltInConfig
from workbench.scoring import Request, Seq2SeqEngine
from workbench.trace import Stack, capture, structure_of, trace
from workbench.trace.decoder import pass_inputs, text_passes

IDS: dict[str, Any] = {
    "vocab_size": SIZE, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "decoder_start_token_id": 2,
}  # fmt: skip
CURRENT = {"score": "general", "query": "current", "input_feeding": True}
CONFIGS: dict[str, BuiltInConfig] = {
    "bahdanau": RecurrentConfig(hidden_size=16, embeddings={"size": 12}, **IDS),
    "luong": RecurrentConfig(hidden_size=16, cell={"kind": "lstm"}, attention=CURRENT, **IDS),
}
SIDES = {"layers": 2, "decoder_layers": 3}
CONFIGS["convs2s"] = ConvolutionalConfig(hidden_size=16, embeddings={"size": 12}, depth=SIDES, **IDS)
SOURCES, TARGETS = ["the big cat sat on the mat", "a dog"], ["the dog ran", "a big red house and mat"]


@pytest.fixture(params=CONFIGS)
def model(request: pytest.FixtureRequest) -> LoadedModel:
    return tiny(request.param)


def tiny(name: str) -> LoadedModel:
    register()
    network = build("AutoModelForSeq2SeqLM", CONFIGS[name])
    network.set_attn_implementation("eager")  # plain passes return their weights
    return loaded(network, Kind.SEQ2SEQ, special=False)


def plain(model: LoadedModel, row: int) -> Any:
    """The output of a pass over one pair, unpadded."""
    inputs = pass_inputs(model, text_passes(model, [SOURCES[row]], [TARGETS[row]]))
    with torch.no_grad():
        return model.model(**inputs, output_attentions=True, output_hidden_states=True)


def test_trace_is_what_the_model_returns(model: LoadedModel) -> None:
    traced = trace(model, SOURCES, {"attention", "hidden", "logits", "gradients"}, targets=TARGETS)
    for row, text in enumerate(traced):
        output = plain(model, row)
        expected = torch.stack(output.cross_attentions)[:, 0].numpy()  # (L, H, T, S)
        np.testing.assert_allclose(text.get("cross_attention"), expected, atol=1e-5)
        np.testing.assert_allclose(text.get("cross_attention").sum(-1), 1.0, atol=1e-5)
        np.testing.assert_allclose(text.get("logits"), output.logits[0], atol=1e-4)
        for name, states in (("hidden", "decoder"), ("encoder_hidden", "encoder")):
            found = text.get(name)
            for layer, state in enumerate(output[f"{states}_hidden_states"]):
                width = state.shape[-1]
                np.testing.assert_allclose(found[layer][:, :width], state[0], atol=1e-5)
                assert not found[layer][:, width:].any()
        assert text.encoder_attention is None
        assert text.decoder_attention is None
        assert np.abs(text.get("gradients")[0]).max() > 0


@pytest.mark.parametrize("kind", [ViewKind.HEAD, ViewKind.MODEL, ViewKind.ALIGNMENT])
def test_views_show_the_alignment(model: LoadedModel, kind: ViewKind) -> None:
    options = ViewOptions(kind=kind, layer=0, step="reads")  # every step has a row
    traced = trace_for(model, SOURCES[0], options, target=TARGETS[0])
    frame = view_of(traced, options).to_frame()
    cross = traced[0].get("cross_attention")
    assert set(frame.iloc[:, 0]) == {"cross"}
    assert len(frame) == cross.size


def test_a_layer_out_of_range_is_one_line(model: LoadedModel) -> None:
    with pytest.raises(TraceError, match="layer 9 is out of range: the cross has layers 0 to"):
        trace(model, SOURCES, targets=TARGETS, layers=[9])


def test_scores_are_the_plain_ones(model: LoadedModel) -> None:
    requests = [Request(s, t) for s, t in zip(SOURCES, TARGETS, strict=True)]
    for row, score in enumerate(Seq2SeqEngine(model).score(requests)):
        ids = model.tokenizer(TARGETS[row], add_special_tokens=False).input_ids
        table = plain(model, row).logits[0].log_softmax(-1)
        expected = [float(table[place, token]) for place, token in enumerate(ids)]
        assert list(score.token_log_probabilities) == pytest.approx(expected, abs=1e-4)


def test_saliency_sees_the_source(model: LoadedModel) -> None:
    found = attribute(model, SOURCES[0], method="integrated_gradients", target="dog")
    assert np.abs(found.scores).max() > 0
    assert abs(found.delta or 0.0) < 0.01


def test_layers_of_the_encoder_are_features(model: LoadedModel) -> None:
    features = extract(model, SOURCES)
    layers = structure_of(model.model).layers[Stack.ENCODER]
    assert tuple(features.layers) == tuple(range(layers + 1))
    states = capture(model, SOURCES, "residual", stack="encoder")
    first = torch.cat([plain(model, row).encoder_hidden_states[1][0] for row in range(2)])
    np.testing.assert_allclose(states.values[0], first, atol=1e-5)


def test_what_needs_self_attention_is_refused_in_one_line(model: LoadedModel) -> None:
    for refused in (
        lambda: head_statistics(model, SOURCES),
        lambda: head_importance(model, SOURCES, TARGETS),
        lambda: attribute(model, SOURCES[0], method="attention_rollout", target="dog"),
        lambda: trace(model, SOURCES, targets=TARGETS, record={"mlp"}, heads=[3]),
    ):
        with pytest.raises(TraceError) as refusal:
            refused()
        assert "\n" not in str(refusal.value)


def test_layers_of_convolutions_are_read_and_exchanged() -> None:
    model = tiny("convs2s")
    reading = logit_lens(model, SOURCES[0], target_text=TARGETS[0])
    assert reading.layers == 4
    expected = plain(model, 0).logits[0].softmax(-1).max(-1).values
    np.testing.assert_allclose(reading.top_probabilities[-1, :, 0], expected, atol=1e-4)
    pair = patch_pair(
        model, "the cat sat", "the dog sat", "mat", "house", target_text="a big", stack="decoder"
    )
    clean = [(Patch(PatchSite.RESIDUAL, layer),) for layer in (1, 2)]  # the source below stays corrupted
    assert patched_values(pair, [*clean, ()])[-1] == pytest.approx(0.0, abs=1e-3)


def test_states_of_a_recurrent_decoder_cannot_be_exchanged() -> None:
    model = tiny("bahdanau")
    with pytest.raises(TraceError, match="does not hand one state a token from block to block"):
        logit_lens(model, SOURCES[0], target_text=TARGETS[0])
    with pytest.raises(TraceError, match="no residual was found in the decoder"):
        capture(model, SOURCES, "residual", targets=TARGETS, stack="decoder")
