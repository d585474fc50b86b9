"""Attention whose rows are no distributions by design: traced and drawn with its signs, refused where it has to be."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import workbench
from tests.unit.trace import tiny
from workbench.analysis.attention import attention_entropy
from workbench.analysis.head_clusters import head_clusters
from workbench.analysis.heads import head_statistics
from workbench.errors import TraceError
from workbench.evaluate.doctor._internals import attention_rows
from workbench.evaluate.doctor._records import NotApplicable, Status
from workbench.figures._inputs import AttentionInputs
from workbench.figures._page import map_record
from workbench.figures.attention_views import head_view, model_view
from workbench.figures.view_options import trace_view
from workbench.models import Kind, LoadedModel
from workbench.models.configuration import EncoderConfig
from workbench.models.heads.masked import TransformerEncoderForMaskedLM
from workbench.models.parts import AttentionConfig, DepthConfig, FeedForwardConfig, FormConfig

TEXT = "the cat sat on the mat and the dog ran"


def _model(kind: str) -> LoadedModel:
    config = EncoderConfig(
        vocab_size=tiny.SIZE,
        hidden_size=16,
        attention=AttentionConfig(heads=2),
        form=FormConfig(kind=kind, landmarks=3, rank=4, features=16),
        feed_forward=FeedForwardConfig(size=24),
        depth=DepthConfig(layers=2),
        initializer_range=0.4,
        pad_token_id=0,
    )
    torch.manual_seed(0)
    return tiny.loaded(TransformerEncoderForMaskedLM(config), Kind.MASKED, special=True)


@pytest.mark.parametrize(
    ("kind", "name"),
    [("nystromformer", "NystromformerAttention"), ("linformer", "LinformerAttention")],
)
def test_what_needs_distributions_says_in_one_line_that_there_are_none(kind: str, name: str) -> None:
    model = _model(kind)
    with pytest.raises(NotApplicable, match=f"rows of {name} need not sum to 1, by design"):
        attention_rows(model)
    for verb, measure in (("head_statistics", head_statistics), ("head_clusters", head_clusters)):
        with pytest.raises(
            TraceError, match=f"{verb} needs attention whose rows are distributions over tokens"
        ):
            measure(model, [TEXT])
    attention = workbench.trace(model, TEXT)[0].attention
    assert attention.min() < -0.05
    with pytest.raises(TraceError, match="forms such as Linformer and Nyströmformer have no distributions"):
        attention_entropy(attention)


@pytest.mark.parametrize("kind", ["performer", "synthesizer_dense"])
def test_forms_with_distributions_are_measured_as_any_other(kind: str) -> None:
    model = _model(kind)
    assert attention_rows(model).status is Status.PASS
    entropy = head_statistics(model, [TEXT, "a dog"])["entropy"].values
    assert entropy.shape == (2, 2)
    assert (entropy > 0).all()


def test_views_draw_negative_weights(tmp_path: Path) -> None:
    traced = workbench.trace(_model("nystromformer"), TEXT)
    for view in ("head", "model"):
        shown = trace_view(traced, kind=view)
        assert '"signed":true' in shown.html
        assert shown.save(tmp_path / f"{view}.png").stat().st_size > 0
    frame = trace_view(traced).to_frame()
    np.testing.assert_allclose(frame["weight"], traced[0].attention.ravel())
    with pytest.raises(TraceError, match="the neuron view shows how a softmax over q · k comes about"):
        trace_view(
            workbench.trace(_model("nystromformer"), TEXT, {"attention", "queries_keys"}), kind="neuron"
        )


@pytest.mark.parametrize("view", [head_view, model_view])
def test_weights_outside_zero_and_one_are_refused_unless_signed(view: Any) -> None:
    weights = np.array([[0.5, -0.5], [2.0, 0.0]], np.float32).reshape(1, 1, 2, 2)
    with pytest.raises(TraceError, match=r"spans -0\.5 to 2 but weights lie in 0\.\.1"):
        view(weights, ["a", "b"])
    assert '"limit":2.0' in view(weights, ["a", "b"], signed=True).html


def test_signed_weights_are_packed_around_the_middle() -> None:
    weights = np.array([[0.5, -0.5], [2.0, 0.0]], np.float32).reshape(1, 1, 2, 2)
    (whole,) = AttentionInputs(attention=weights, tokens=["a", "b"], signed=True).maps()
    record = map_record(whole)
    numbers = np.frombuffer(base64.b64decode(record["weights"][0]), "<u2").astype(float)
    found = (numbers - 32767) / 32767 * record["limit"]
    np.testing.assert_allclose(found, weights.ravel(), atol=2 / 32767)
    assert found[3] == 0.0


def test_the_gradient_of_weights_that_no_token_had_a_part_in() -> None:
    text = TEXT.replace("dog", "[MASK]")
    found = workbench.attribute(_model("synthesizer_fixed"), text, method="attention_gradient")
    assert np.abs(found.scores).max() > 0


def test_a_synthesizer_has_values_but_no_queries_and_keys() -> None:
    text = workbench.trace(_model("synthesizer_dense"), TEXT, {"attention", "queries_keys"})[0]
    assert text.get("values").shape == (2, 2, 12, 8)
    with pytest.raises(TraceError, match="the trace holds no queries"):
        text.get("queries")
