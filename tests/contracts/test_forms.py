"""Every form of attention: its map gives what its efficient way gives, padding changes nothing, and no leak."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import workbench.models  # noqa: F401  registers the built-in models
from workbench.errors import ConfigError
from workbench.models.configuration import DecoderConfig, EncoderConfig
from workbench.models.heads.causal import TransformerDecoderForCausalLM
from workbench.models.heads.masked import TransformerEncoderForMaskedLM
from workbench.models.parts import (
    AttentionConfig,
    DepthConfig,
    FeedForwardConfig,
    FormConfig,
    PositionConfig,
)
from workbench.nn.forms import FORMS

CAUSAL = [name for name, form in FORMS.items() if form.can_be_causal]
LENGTH = 13  # no multiple of the block
# sizes at which each form leaves something out of 13 tokens, or draws something at random
FORM = FormConfig(
    window=2,
    global_tokens=1,
    block=2,
    random_blocks=1,
    rank=5,
    landmarks=4,
    features=16,
    rounds=2,
    buckets=4,
    factor=4,
    kernel=3,
    seed=3,
)


def _model(kind: str, *, is_causal: bool, **attention: Any) -> Any:
    shape = {
        "vocab_size": 40,
        "hidden_size": 16,
        "attention": AttentionConfig(heads=2, **attention),
        "form": replace(FORM, kind=kind),
        "positions": PositionConfig(max_length=32),
        "feed_forward": FeedForwardConfig(size=32),
        "depth": DepthConfig(layers=2),
        "initializer_range": 0.3,  # large enough that attention matters
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    torch.manual_seed(0)
    if is_causal:
        return TransformerDecoderForCausalLM(DecoderConfig(**shape)).double().eval()
    return TransformerEncoderForMaskedLM(EncoderConfig(**shape)).double().eval()


def _ids(rows: int = 2, length: int = LENGTH) -> Tensor:
    return torch.randint(3, 40, (rows, length), generator=torch.Generator().manual_seed(1))


EVERY = [(kind, False) for kind in FORMS] + [(kind, True) for kind in CAUSAL]


@pytest.mark.parametrize(("kind", "is_causal"), EVERY)
def test_its_map_gives_what_its_efficient_way_gives(kind: str, is_causal: bool) -> None:
    model, ids = _model(kind, is_causal=is_causal), _ids()
    model.set_attn_implementation("sdpa")
    fast = model(ids, use_cache=False).logits if is_causal else model(ids).logits
    model.set_attn_implementation("eager")
    slow = model(ids, output_attentions=True)
    torch.testing.assert_close(slow.logits, fast, rtol=0, atol=1e-9 * float(fast.detach().abs().max()))
    assert [tuple(weights.shape) for weights in slow.attentions] == [(2, 2, LENGTH, LENGTH)] * 2
    assert all(float(weights.detach().abs().sum()) > 0 for weights in slow.attentions)


@pytest.mark.parametrize(("kind", "is_causal"), EVERY)
@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_changes_nothing(kind: str, is_causal: bool, implementation: str, side: str) -> None:
    model = _model(kind, is_causal=is_causal)
    model.set_attn_implementation(implementation)
    long, short = _ids(1, LENGTH)[0], _ids(1, 8)[0]
    padding = torch.zeros(LENGTH - 8, dtype=torch.long)
    padded = torch.cat([padding, short] if side == "left" else [short, padding])
    ids, mask = torch.stack([long, padded]), torch.stack([torch.ones_like(long), padded.ne(0).long()])
    places = (mask.cumsum(-1) - 1).clamp(min=0)
    given = {"use_cache": False} if is_causal else {}
    together = model(ids, attention_mask=mask, position_ids=places, **given).logits
    for row, alone in enumerate((long, short)):
        expected = model(alone[None], **given).logits[0]
        torch.testing.assert_close(
            together[row][mask[row].bool()],
            expected,
            rtol=0,
            atol=1e-9 * float(expected.detach().abs().max()),
        )


@pytest.mark.parametrize("kind", CAUSAL)
@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_a_causal_form_leaks_nothing(kind: str, implementation: str) -> None:
    model, ids = _model(kind, is_causal=True), _ids(1)
    model.set_attn_implementation(implementation)
    for place in range(LENGTH - 1):
        vectors = model.get_input_embeddings()(ids).detach().requires_grad_()
        logits = model(inputs_embeds=vectors, use_cache=False).logits
        (gradient,) = torch.autograd.grad(logits[0, place].square().sum(), vectors)
        assert float(gradient[0, : place + 1].abs().sum()) > 0
        assert torch.equal(gradient[0, place + 1 :], torch.zeros_like(gradient[0, place + 1 :]))


@pytest.mark.parametrize("kind", CAUSAL)
def test_generation_with_the_cache_is_that_without_or_refused(kind: str) -> None:
    model, ids = _model(kind, is_causal=True), _ids()
    mask = torch.ones_like(ids)
    mask[0, :4] = 0
    settings = {"max_new_tokens": 6, "do_sample": False, "attention_mask": mask, "pad_token_id": 0}
    plain = model.generate(ids, use_cache=False, **settings)
    assert torch.equal(model.generate(ids, **settings), plain)
    if not FORMS[kind].can_cache:
        with pytest.raises(ConfigError, match="cannot go on from a cache; pass use_cache=False"):
            model(ids, use_cache=True)


@pytest.mark.parametrize("kind", [name for name in FORMS if name not in CAUSAL])
def test_causal_use_of_a_form_that_has_none_is_one_line(kind: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"form.kind = '{kind}' is not allowed; allowed: in a decoder full"
    ):
        _model(kind, is_causal=True)


@pytest.mark.parametrize(("kind", "is_causal"), EVERY)
def test_every_weight_gets_a_gradient_from_the_efficient_way(kind: str, is_causal: bool) -> None:
    model, ids = _model(kind, is_causal=is_causal).train(), _ids()
    model(ids, labels=ids).loss.backward()
    layers = model.model.stack.layers
    missing = [name for name, weight in layers.named_parameters() if weight.grad is None]
    assert not missing


@pytest.mark.parametrize("kind", FORMS)
def test_it_is_saved_and_loaded(kind: str, tmp_path: Any) -> None:
    model, ids = _model(kind, is_causal=False), _ids()
    model.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path, dtype=torch.float64).eval()
    torch.testing.assert_close(loaded(ids).logits, model(ids).logits, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"form": {"kind": "linformr"}}, "form.kind = 'linformr' is not allowed; allowed: full, "),
        ({"form": {"kind": "linformer", "rank": 0}}, "form.rank = 0 is not allowed; allowed: 1 or more"),
        ({"form": {"seed": None}}, "form.seed"),
        (
            {"form": {"kind": "linformer"}, "positions": {"kind": "alibi"}},
            "positions.kind = 'alibi' is not allowed; allowed: none, learned, sinusoidal, rotary, with form.kind",
        ),
        (
            {"form": {"kind": "linformer"}, "attention": {"window": 4}},
            "attention.window = 4 is not allowed; allowed: none, with form.kind = linformer",
        ),
    ],
)
def test_settings_that_do_not_fit_are_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        EncoderConfig(**changes)
    assert str(raised.value).startswith(message)


def test_a_mask_of_queries_and_keys_is_refused() -> None:
    model, ids = _model("linformer", is_causal=False), _ids()
    with pytest.raises(ConfigError, match="takes no mask of queries and keys"):
        model(ids, attention_mask=torch.ones(2, 1, LENGTH, LENGTH, dtype=torch.bool))
