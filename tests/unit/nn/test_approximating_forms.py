"""Linformer, Nyströmformer, Performer and Synthesizer against the attention that they stand for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.largest_tensor import LargestTensor
from workbench.errors import ConfigError
from workbench.models import presets
from workbench.models.configuration import DecoderConfig, EncoderConfig
from workbench.models.heads.causal import TransformerDecoderForCausalLM
from workbench.models.heads.masked import TransformerEncoderForMaskedLM
from workbench.models.parts import AttentionConfig, DepthConfig, FeedForwardConfig, FormConfig, PositionConfig
from workbench.nn import Attention, AttentionContext
from workbench.nn.attention_functions import eager_attention, sdpa_attention
from workbench.nn.forms import (
    FORMS,
    FactorisedSynthesizerAttention,
    LinformerAttention,
    NystromformerAttention,
    PerformerAttention,
    RandomSynthesizerAttention,
)
from workbench.nn.forms.base import EfficientAttention
from workbench.nn.forms.nystromformer import iterative_inverse
from workbench.nn.forms.performer import orthogonal_features

WIDTH, HEADS, LENGTH = 32, 2, 10
EFFICIENT = AttentionContext(function=sdpa_attention)


def _hidden(length: int = LENGTH, rows: int = 2, size: float = 1.0) -> Tensor:
    drawn = torch.randn(rows, length, WIDTH, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return size * drawn


def _sharing_weights(form: EfficientAttention) -> tuple[EfficientAttention, Attention]:
    """The form, and full attention with the same projections; no scores are near zero."""
    full = Attention(width=WIDTH, heads=HEADS, is_causal=form.is_causal).double().eval()
    generator = torch.Generator().manual_seed(2)
    for layer in (full.query, full.key, full.value):
        torch.nn.init.normal_(layer.weight, std=0.25, generator=generator)
        torch.nn.init.zeros_(layer.bias)
    form = form.double().eval()
    form.load_state_dict(full.state_dict(), strict=False)
    return form, full


def _output(attention: Attention, hidden: Tensor, context: AttentionContext = EFFICIENT) -> Tensor:
    with torch.no_grad():
        return attention(hidden, context)[0]


def test_linformer_with_identities_is_full_attention() -> None:
    made = LinformerAttention(rank=LENGTH, max_length=LENGTH, width=WIDTH, heads=HEADS)
    form, full = _sharing_weights(made)
    for projection in (form.key_projection, form.value_projection):
        torch.nn.init.eye_(projection.weight)
    torch.testing.assert_close(_output(form, _hidden()), _output(full, _hidden()))


def test_linformers_projections_start_at_a_size_that_keeps_what_they_project() -> None:
    torch.manual_seed(0)
    model = presets.build("linformer-mini")
    weight = model.model.stack.layers[0].attention.key_projection.weight  # (128, 1024)
    assert float(weight.detach().std()) == pytest.approx(128**-0.5, rel=0.02)
    tokens = torch.randn(1024, 64)
    assert float((weight.detach() @ tokens).norm() / tokens.norm()) == pytest.approx(1.0, rel=0.1)


@pytest.mark.parametrize("landmarks", [LENGTH, 3 * LENGTH])
def test_nystromformer_with_a_landmark_for_each_token_is_full_attention(landmarks: int) -> None:
    made = NystromformerAttention(landmarks=landmarks, kernel=None, width=WIDTH, heads=HEADS)
    form, full = _sharing_weights(made)
    torch.testing.assert_close(_output(form, _hidden()), _output(full, _hidden()))


def test_nystroms_product_itself_is_exact_when_every_token_is_a_landmark() -> None:
    """Without the short cut to full attention: S S⁺ S = S, once the inverse has converged."""
    scores = (_hidden(rows=1) @ _hidden(rows=1).transpose(-1, -2)) * 0.3
    weights = scores.softmax(-1)
    for iterations, tolerance in ((6, 0.2), (40, 1e-8)):
        found = weights @ iterative_inverse(weights, iterations) @ weights
        torch.testing.assert_close(found, weights, rtol=0, atol=tolerance)


def test_the_iterative_inverse_is_that_of_an_exact_one() -> None:
    matrix = torch.randn(2, 3, 5, 5, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    matrix = (2 * matrix).softmax(-1)
    torch.testing.assert_close(iterative_inverse(matrix, 30), torch.linalg.pinv(matrix))


def test_segments_of_landmarks_differ_by_one_token_at_most() -> None:
    form = NystromformerAttention(landmarks=4, kernel=None, width=WIDTH, heads=HEADS)
    _, layout = _row_lengths([13, 8, 5])
    means = form._means(13, layout)[:, 0]  # (row, landmark, token)
    torch.testing.assert_close(means.sum(-1), torch.ones(3, 4, dtype=torch.float64))
    sizes = (means > 0).sum(-1)
    assert sizes.sum(-1).tolist() == [13, 8, 5]
    assert int((sizes.amax(-1) - sizes.amin(-1)).max()) == 1


def _row_lengths(lengths: list[int]) -> tuple[Tensor, Any]:
    from workbench.nn.forms import Layout

    longest = max(lengths)
    places = torch.arange(longest).expand(len(lengths), -1)
    return places, Layout(torch.tensor(lengths), places)


def test_orthogonal_features_are_orthogonal_normal_and_drawn_from_the_seed() -> None:
    drawn = orthogonal_features(4000, 8, seed=5).double()
    assert torch.equal(drawn.float(), orthogonal_features(4000, 8, seed=5))
    assert not torch.equal(drawn.float(), orthogonal_features(4000, 8, seed=6))
    block = drawn[:8] / drawn[:8].norm(dim=-1, keepdim=True)
    torch.testing.assert_close(block @ block.T, torch.eye(8, dtype=torch.float64), rtol=0, atol=1e-6)
    torch.testing.assert_close(drawn.T @ drawn / 4000, torch.eye(8, dtype=torch.float64), rtol=0, atol=0.08)
    assert orthogonal_features(11, 8, seed=5).shape == (11, 8)


@pytest.mark.parametrize("is_causal", [False, True])
def test_performers_error_falls_as_one_over_the_root_of_the_features(is_causal: bool) -> None:
    """Mean over 8 draws of 32 to 2,048 features; the slope in logarithms is -0.5 within 0.1.

    The scores are of moderate size: where they are large, few draws of the features decide and a mean of 8 is none.
    """
    hidden, counts, errors = _hidden(24, size=0.3), [32, 128, 512, 2048], []
    causal = torch.ones(24, 24, dtype=torch.bool).tril() if is_causal else None
    for count in counts:
        found = []
        for seed in range(8):
            made = PerformerAttention(
                features=count, seed=100 * seed, width=WIDTH, heads=HEADS, is_causal=is_causal
            )
            form, full = _sharing_weights(made)
            exact = _output(full, hidden, AttentionContext(mask=causal, function=eager_attention))
            found.append(float((_output(form, hidden) - exact).norm() / exact.norm()))
        errors.append(np.mean(found))
    slope = np.polyfit(np.log(counts), np.log(errors), 1)[0]
    assert slope == pytest.approx(-0.5, abs=0.1)
    assert errors[-1] < 0.1


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("size", [1e-3, 30.0, 1e3])
def test_performer_is_finite_whatever_the_size_of_its_input(is_causal: bool, size: float) -> None:
    made = PerformerAttention(features=32, seed=0, width=WIDTH, heads=HEADS, is_causal=is_causal)
    form = _sharing_weights(made)[0].float()
    hidden = _hidden(150, size=size).float()
    hidden[:, 70:] *= 0.01  # from large keys to small ones, and back
    hidden[:, 140:] *= 100
    hidden.requires_grad_()
    output, _ = form(hidden, EFFICIENT)
    output.sum().backward()
    assert bool(output.isfinite().all())
    assert bool(hidden.grad.isfinite().all())


def test_performers_chunks_give_what_one_map_gives() -> None:
    """150 tokens: two chunks and a part of one."""
    made = PerformerAttention(features=32, seed=0, width=WIDTH, heads=HEADS, is_causal=True)
    form, _ = _sharing_weights(made)
    logs = [form._log_features(form._split(layer(_hidden(150)))) for layer in (form.query, form.key)]
    weights = torch.logsumexp(logs[0][:, :, :, None] + logs[1][:, :, None], -1).exp()  # (B, H, Q, K)
    weights = weights.tril() / weights.tril().sum(-1, keepdim=True)
    values = form._split(form.value(_hidden(150)))
    expected = form.output((weights @ values).transpose(1, 2).flatten(2))
    torch.testing.assert_close(_output(form, _hidden(150)), expected.detach())


def _model(kind: str, *, is_causal: bool, **form: Any) -> Any:
    torch.manual_seed(0)
    shape: dict[str, Any] = {
        "vocab_size": 40,
        "hidden_size": 16,
        "attention": AttentionConfig(heads=4, key_value_heads=2),
        "form": FormConfig(kind=kind, **form),
        "positions": PositionConfig(max_length=32),
        "feed_forward": FeedForwardConfig(size=32),
        "depth": DepthConfig(layers=1),
        "initializer_range": 0.3,
        "pad_token_id": 0,
    }
    if is_causal:
        return TransformerDecoderForCausalLM(DecoderConfig(**shape)).double().eval()
    return TransformerEncoderForMaskedLM(EncoderConfig(**shape)).double().eval()


@pytest.mark.parametrize("kind", ["performer", "synthesizer_dense", "nystromformer", "linformer"])
def test_heads_may_share_keys_and_values(kind: str) -> None:
    model, ids = _model(kind, is_causal=False, rank=4, landmarks=4, features=16), torch.arange(3, 13)[None]
    model.set_attn_implementation("sdpa")
    fast = model(ids).logits
    model.set_attn_implementation("eager")
    torch.testing.assert_close(model(ids).logits, fast)


@pytest.mark.parametrize("kind", [name for name in FORMS if name.startswith("synthesizer")])
def test_a_synthesizer_compares_nothing(kind: str) -> None:
    """No query or key matrix; the weights of a token do not change with the other tokens."""
    model = _model(kind, is_causal=False, factor=4)
    names = dict(model.model.stack.layers.named_parameters())
    assert not [name for name in names if ".query." in name or ".key." in name]
    model.set_attn_implementation("eager")
    ids = torch.tensor([[3, 4, 5, 6], [3, 9, 8, 7]])
    one, other = model(ids, output_attentions=True).attentions[0]
    torch.testing.assert_close(one[:, 0], other[:, 0])
    if kind in ("synthesizer_fixed", "synthesizer_random"):
        torch.testing.assert_close(one, other)
    else:
        assert not torch.allclose(one, other)


def test_a_random_synthesizer_looks_its_scores_up() -> None:
    form = RandomSynthesizerAttention(max_length=6, width=WIDTH, heads=HEADS).double().eval()
    with torch.no_grad():
        weights = form(_hidden(4), AttentionContext())[1]
    table = form.pairs.weight.detach().view(6, HEADS, 6)
    torch.testing.assert_close(weights[0, 1], table[:4, 1, :4].softmax(-1))


def test_a_fixed_synthesizer_is_drawn_from_the_seed_and_learns_no_scores() -> None:
    drawn = [_model("synthesizer_fixed", is_causal=True, seed=seed) for seed in (0, 0, 1)]
    pairs = [model.model.stack.layers[0].attention.pairs for model in drawn]
    assert torch.equal(pairs[0], pairs[1])
    assert not torch.equal(pairs[0], pairs[2])
    assert not any("pairs" in name for name, _ in drawn[0].named_parameters())


@pytest.mark.parametrize("kind", ["linformer", "nystromformer", "performer", "performer causal"])
def test_no_tensor_grows_faster_than_the_length(kind: str) -> None:
    """Forward and backward, at 512 and 1,024 tokens: twice the length, twice the largest tensor at most."""
    sizes = {"features": 64, "seed": 0, "is_causal": "causal" in kind}
    makers: dict[str, Any] = {
        "linformer": lambda length: LinformerAttention(rank=64, max_length=length, width=WIDTH, heads=HEADS),
        "nystromformer": lambda _: NystromformerAttention(landmarks=64, kernel=3, width=WIDTH, heads=HEADS),
        "performer": lambda _: PerformerAttention(width=WIDTH, heads=HEADS, **sizes),
    }
    largest = []
    for length in (512, 1024):
        form, hidden = makers[kind.split()[0]](length), _hidden(length).float().requires_grad_()
        with LargestTensor() as seen:
            form(hidden, EFFICIENT)[0].sum().backward()
        largest.append(seen.entries)
    assert largest[1] <= 2 * largest[0]
    assert (
        largest[1] <= 2 * HEADS * 1024 * 64
    )  # rows, heads, length, and rank, landmarks or features: no (T, m, d)


def test_a_factorised_synthesizer_has_a_score_for_each_pair() -> None:
    form = FactorisedSynthesizerAttention(factor=2, max_length=6, width=WIDTH, heads=HEADS).double()
    hidden = _hidden(6)
    inner = form.inner(hidden).relu()
    first, second = form.first(inner), form.second(inner)
    scores = form.scores(hidden, 6, _row_lengths([6, 6])[1])
    for place in range(6):
        expected = first[..., place // 3] * second[..., place % 3]
        torch.testing.assert_close(scores[..., place], expected)


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (
            "synthesizer_factorised",
            {"factor": 5},
            "form.factor = 5 is not allowed; allowed: a divisor of positions.max_length = 32",
        ),
        ("nystromformer", {"kernel": 4}, "form.kernel = 4 is not allowed; allowed: none or an odd number"),
    ],
)
def test_sizes_that_do_not_fit_are_one_line(kind: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        _model(kind, is_causal=False, **changes)
    assert str(raised.value).startswith(message)


def test_rotary_positions_have_nothing_to_turn_in_a_synthesizer() -> None:
    with pytest.raises(
        ConfigError, match=r"positions\.kind = 'rotary' is not allowed; allowed: none, learned"
    ):
        EncoderConfig(form={"kind": "synthesizer_dense"}, positions={"kind": "rotary"})


@pytest.mark.parametrize("kind", ["linformer", "synthesizer_dense"])
def test_a_text_beyond_the_learned_places_is_one_line(kind: str) -> None:
    config = _model(kind, is_causal=False).config
    config.positions = replace(config.positions, kind="sinusoidal")
    model = TransformerEncoderForMaskedLM(config)
    with pytest.raises(ConfigError, match=f"a sequence of 33 tokens is longer than the {kind} attention"):
        model(torch.ones(1, 33, dtype=torch.long))
