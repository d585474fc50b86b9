"""Direct logit attribution: shares add up, and are those of a computation by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transformers

from tests.unit.analysis.test_lens import builtin
from tests.unit.trace import tiny
from tests.unit.trace.test_decoder_prefix import bart
from workbench.analysis.direct import direct_logit_attribution
from workbench.analysis.neurons import promoted_tokens, top_activations
from workbench.errors import DataError, ModelError, TraceError
from workbench.models import Kind

TEXT = "the cat sat on the"


@pytest.mark.parametrize(
    "build",
    [
        tiny.llama,
        tiny.bert,
        tiny.albert,
        tiny.t5,
        lambda: builtin(Kind.CAUSAL, placement="sandwich"),
        tiny.gemma2,
        lambda: builtin(Kind.CAUSAL, placement="post", final=False),
        lambda: builtin(Kind.MASKED, placement="post"),
        lambda: builtin(Kind.SEQ2SEQ, placement="pre"),
        lambda: builtin(Kind.CAUSAL, placement="pre", residual_scale="rezero"),
    ],
)
def test_shares_sum_to_the_logit(build: Any) -> None:
    model = build()
    target_text = "a dog" if model.kind is Kind.SEQ2SEQ else None
    found = direct_logit_attribution(model, TEXT, "mat", "dog", target_text=target_text)
    assert found.total == pytest.approx(found.logit, abs=1e-4)


def test_shares_of_a_decoder_are_those_worked_out_by_hand() -> None:
    """Pre-norm with RMS norm: share of a part = (part · gain / rms of the final state) · row of the output matrix."""
    model = tiny.llama()
    network = model.model
    ids = torch.tensor([model.tokenizer(TEXT).input_ids])
    parts: dict[str, torch.Tensor] = {}
    layer = network.model.layers[1]
    handles = [
        layer.mlp.register_forward_hook(lambda m, a, o: parts.update(mlp=o[0, -1])),
        layer.self_attn.o_proj.register_forward_hook(lambda m, a, o: parts.update(heads=a[0][0, -1])),
        network.model.norm.register_forward_pre_hook(lambda m, a: parts.update(end=a[0][0, -1])),
    ]
    with torch.no_grad():
        network(ids)
    for handle in handles:
        handle.remove()
    wanted = model.tokenizer.convert_tokens_to_ids("mat")
    scale = (parts["end"].square().mean() + network.config.rms_norm_eps).rsqrt()
    row = network.lm_head.weight[wanted] * network.model.norm.weight * scale
    matrix = layer.self_attn.o_proj.weight  # (D, H * d)
    width = matrix.shape[1] // 4
    heads = [
        (row @ matrix[:, h * width : (h + 1) * width] @ parts["heads"][h * width : (h + 1) * width]).item()
        for h in range(4)
    ]
    found = direct_logit_attribution(model, TEXT, "mat")
    np.testing.assert_allclose(found.heads[1], heads, atol=1e-5)
    assert found.mlp[1] == pytest.approx((row @ parts["mlp"]).item(), abs=1e-5)


def test_a_bias_behind_the_output_layer_is_one_of_the_biases() -> None:
    """BART adds ``final_logits_bias`` to what its output layer gives: it is attributed, and named."""
    model = bart()
    wanted, other = model.tokenizer.convert_tokens_to_ids(["mat", "dog"])
    before = direct_logit_attribution(model, TEXT, "mat", "dog", target_text="a big")
    model.model.final_logits_bias[0, wanted] += 2.0
    model.model.final_logits_bias[0, other] -= 0.5
    found = direct_logit_attribution(model, TEXT, "mat", "dog", target_text="a big")
    assert found.logit == pytest.approx(before.logit + 2.5, abs=1e-4)
    assert found.biases == pytest.approx(before.biases + 2.5, abs=1e-4)
    assert found.total == pytest.approx(found.logit, abs=1e-4)
    assert "of the biases, +2.5000 is added behind the output layer" in found.note
    assert before.note == ""


def test_what_scales_and_what_caps_logits_is_named() -> None:
    """Cohere multiplies its logits by a constant; Gemma 2 bounds them by tanh."""
    config = transformers.CohereConfig(**tiny.DECODER, num_hidden_layers=2, logit_scale=0.25)
    cohere = tiny.loaded(tiny.build("AutoModelForCausalLM", config), Kind.CAUSAL, special=False)
    assert "before the model multiplies its logits by 0.25" in direct_logit_attribution(cohere, TEXT).note
    gemma = tiny.gemma2()
    gemma.config.final_logit_softcapping = 1.0
    assert "before the model caps its logits" in direct_logit_attribution(gemma, TEXT).note


def test_what_cannot_be_attributed_says_so() -> None:
    with pytest.raises(ModelError, match="direct logit attribution needs"):
        direct_logit_attribution(tiny.bert("AutoModel"), TEXT)
    with pytest.raises(TraceError, match="heads cannot be told apart"):
        direct_logit_attribution(tiny.deberta(), TEXT)
    with pytest.raises(TraceError, match="position 9 is out of range"):
        direct_logit_attribution(tiny.llama(), TEXT, position=9)


def test_strongest_firings_are_those_of_a_full_search() -> None:
    model = tiny.llama()
    texts = [
        "the cat sat on the mat",
        "a dog ran",
        "the small red house",
        "and because the old dog saw a cat",
    ]
    neurons = [0, 5]
    found = top_activations(model, texts, 1, neurons, count=3, batch_size=2)
    everything: list[tuple[float, int, int]] = []
    for index, text in enumerate(texts):  # one text at a time, no padding
        seen: list[torch.Tensor] = []
        handle = model.model.model.layers[1].mlp.down_proj.register_forward_pre_hook(
            lambda m, a, seen=seen: seen.append(a[0])
        )
        with torch.no_grad():
            model.model(torch.tensor([model.tokenizer(text).input_ids]))
        handle.remove()
        everything += [(float(v), index, p) for p, v in enumerate(seen[0][0, :, 5])]
    expected = sorted(everything, reverse=True)[:3]
    assert [(f.text, f.position) for f in found[1]] == [(text, position) for _, text, position in expected]
    np.testing.assert_allclose([f.activation for f in found[1]], [v for v, _, _ in expected], atol=1e-5)
    first = found[1][0]
    assert first.token == texts[first.text].split()[first.position]


def test_promoted_tokens_are_the_largest_products() -> None:
    model = tiny.llama()
    scores = model.model.lm_head.weight @ model.model.model.layers[2].mlp.down_proj.weight[:, 3]
    best = int(scores.argmax())
    found = promoted_tokens(model, 2, 3, count=2)
    assert found.raised[0] == (
        model.tokenizer.convert_ids_to_tokens(best),
        pytest.approx(scores[best].item()),
    )
    with pytest.raises(TraceError, match="neuron 99 is out of range"):
        promoted_tokens(model, 2, 99)
    with pytest.raises(TraceError, match="layer 9 is out of range"):
        top_activations(model, ["a cat"], 9)
    with pytest.raises(DataError, match="count is 0"):
        top_activations(model, ["a cat"], 0, [0], count=0)
