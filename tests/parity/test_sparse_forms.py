"""Longformer's and BigBird's attention beside those of transformers, on the same inputs and copied weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import BigBirdConfig, BigBirdModel, LongformerConfig, LongformerModel

from workbench.nn import AttentionContext, eager_attention, sdpa_attention
from workbench.nn.forms import BigBirdAttention, EfficientAttention, LongformerAttention

TOLERANCE = 1e-4  # of the largest entry
SHAPE = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 128,
    "initializer_range": 0.5,
    "pad_token_id": 0,
    "sep_token_id": 2,
    "attention_probs_dropout_prob": 0.0,
    "hidden_dropout_prob": 0.0,
}


def _ids(length: int) -> Tensor:
    return torch.randint(3, 50, (2, length), generator=torch.Generator().manual_seed(2))


def _passes(model: Any, modules: list[nn.Module], **inputs: Any) -> list[tuple[Tensor, Tensor]]:
    """Hidden states that went into each module, and its heads (B, T, D)."""
    seen: list[tuple[Tensor, Tensor]] = []
    for module in modules:
        module.register_forward_hook(
            lambda _, given, named, result: seen.append(
                (given[0] if given else named["hidden_states"], result[0])
            ),
            with_kwargs=True,
        )
    with torch.no_grad():
        model(**inputs)
    return seen


def _copied(ours: EfficientAttention, theirs: nn.Module) -> EfficientAttention:
    """The weights of a self-attention of transformers; the output layer, which is not part of it, is the identity."""
    for name, linear in ours.named_children():
        if name != "output":
            linear.load_state_dict(getattr(theirs, name).state_dict())
    nn.init.eye_(ours.output.weight)
    nn.init.zeros_(ours.output.bias)
    return ours.eval()


def _compare(ours: EfficientAttention, hidden: Tensor, theirs: Tensor, tokens: Tensor) -> None:
    for function in (sdpa_attention, eager_attention):
        with torch.no_grad():
            heads, _ = ours(hidden, AttentionContext(function=function, tokens=tokens))
        largest = float(theirs.abs().max())
        torch.testing.assert_close(heads[tokens], theirs[tokens], rtol=0, atol=TOLERANCE * largest)


@pytest.mark.parametrize("padded", [0, 5])
def test_longformer(padded: int) -> None:
    torch.manual_seed(0)
    window, length = 3, 24
    model = LongformerModel(LongformerConfig(**SHAPE, attention_window=[2 * window] * 2)).eval()
    ids, mask = _ids(length), torch.ones(2, length, dtype=torch.long)
    mask[1, length - padded :] = 0
    wide = torch.zeros_like(mask)
    wide[:, :2] = 1
    modules = [layer.attention.self for layer in model.encoder.layer]
    passes = _passes(model, modules, input_ids=ids, attention_mask=mask, global_attention_mask=wide)
    for layer, (theirs, (hidden, heads)) in enumerate(zip(modules, passes, strict=True)):
        ours = LongformerAttention(width=16, heads=2, window=window, global_tokens=2, layer_idx=layer)
        _compare(_copied(ours, theirs), hidden, heads, mask.bool())


@pytest.mark.parametrize("padded", [0, 3])
def test_bigbird(padded: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In training: transformers draws random blocks then, and in evaluation counts the first block again instead.

    Its last block is that of the padded batch, ours that of the text: the same where padding leaves it a token.
    """
    torch.manual_seed(0)
    block, length = 4, 48
    config = BigBirdConfig(**SHAPE, attention_type="block_sparse", block_size=block, num_random_blocks=2)
    model = BigBirdModel(config).train()
    modules = [layer.attention.self for layer in model.encoder.layer]
    drawn: list[Any] = []
    for module in modules:
        for name in ("_bigbird_block_rand_mask", "_bigbird_block_rand_mask_with_head"):
            _keep_results(module, name, drawn, monkeypatch)
    mask = torch.ones(2, length)
    mask[1, length - padded :] = 0
    passes = _passes(model, modules, input_ids=_ids(length), attention_mask=mask)
    for layer, (theirs, (hidden, heads)) in enumerate(zip(modules, passes, strict=True)):
        ours = BigBirdAttention(width=16, heads=2, block=block, random_blocks=2, seed=0, layer_idx=layer)
        monkeypatch.setattr(ours, "drawn", lambda last, count, layer=layer: _of_all_rows(drawn, layer, count))
        _compare(_copied(ours, theirs), hidden, heads, mask.bool())


def _keep_results(module: Any, name: str, kept: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    draw = getattr(module, name)

    def drawing(*arguments: Any, **named: Any) -> Any:
        found = draw(*arguments, **named)
        kept.append(found)
        return found

    monkeypatch.setattr(module, name, drawing)


def _of_all_rows(drawn: list[Any], layer: int, count: int) -> Tensor:
    """Their draws, one array (N - 2, R) for each head of each layer, as ours: (1, H, N, R)."""
    of_heads = drawn[2 * layer : 2 * layer + 2] if len(drawn) == 4 else drawn[layer]
    chosen = torch.stack([torch.as_tensor(blocks) for blocks in of_heads]).long()
    return torch.nn.functional.pad(chosen, (0, 0, 1, count - 1 - chosen.shape[1]), value=-1)[None].expand(
        2, -1, -1, -1
    )
