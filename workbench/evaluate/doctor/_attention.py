"""Attention weights are distributions, and a causal model looks only back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor

from workbench.evaluate.doctor._compare import agree, judge
from workbench.evaluate.doctor._invariance import eager_attention
from workbench.evaluate.doctor._records import Finding, NotApplicable
from workbench.evaluate.doctor._subject import outputs, padded, sample_sequences
from workbench.models import Kind, LoadedModel

__all__ = ["attention_rows", "causal_attention", "causal_outputs"]

# exp() of a score that a mask has pushed down to the least number is exactly 0; nothing more is allowed.
_MASKED_WEIGHT = 1e-9


def attention_rows(loaded: LoadedModel) -> Finding:
    """Every row of attention weights sums to 1. Value: the largest deviation.

    A weight rounded to the model's precision is off by half an epsilon of itself, and so is their sum;
    four epsilons are allowed, and never less than 1e-6, since the softmax may be float32 in any model.
    """
    weights = [layer for stack in _weights(loaded).values() for layer in stack]
    if any(name.endswith("sinks") for name, _ in loaded.model.named_parameters()):
        raise NotApplicable("attention sinks take part of each row by design")
    deviation = _largest((layer.double().sum(-1) - 1).abs() for layer in weights)
    tolerance = max(4 * torch.finfo(loaded.dtype).eps, 1e-6)
    return judge(deviation, tolerance, f"|sum of weights - 1| over {len(weights)} attention layers")


def causal_attention(loaded: LoadedModel) -> Finding:
    """A causal model gives no weight to later tokens. Value: the largest weight above the diagonal."""
    _require_causal(loaded)
    stack = _weights(loaded)["decoder" if loaded.kind is Kind.SEQ2SEQ else "self"]
    ahead = _largest(layer.double().triu(1).abs() for layer in stack)
    return judge(ahead, _MASKED_WEIGHT, f"largest weight on a later token in {len(stack)} layers")


def causal_outputs(loaded: LoadedModel) -> Finding:
    """Other tokens later on leave a causal model's earlier outputs as they are."""
    _require_causal(loaded)
    batch = padded(loaded, sample_sequences(loaded)[1:2])
    if batch.decoder_ids is None:
        kept, changed = batch.ids.shape[1] // 2, replace(batch, ids=_change_half(batch.ids))
    else:
        kept, changed = (
            batch.decoder_ids.shape[1] // 2,
            replace(batch, decoder_ids=_change_half(batch.decoder_ids)),
        )
    with torch.no_grad():
        before, after = outputs(loaded.model, batch)[:, :kept], outputs(loaded.model, changed)[:, :kept]
    return agree(before, after, loaded.dtype, f"outputs at {kept} tokens when all later ones change")


def _require_causal(loaded: LoadedModel) -> None:
    if loaded.kind not in (Kind.CAUSAL, Kind.SEQ2SEQ):
        raise NotApplicable(f"a model of kind {loaded.kind} may look ahead")


def _weights(loaded: LoadedModel) -> dict[str, list[Tensor]]:
    """Attention weights (B, H, Q, K) of each layer, by stack, as the model gives them under eager attention."""
    batch = padded(loaded, sample_sequences(loaded)[1:2])
    with torch.no_grad(), eager_attention(loaded):
        answer = loaded.model(**batch.arguments(loaded.model), output_attentions=True)
    names = {"self": "attentions", "encoder": "encoder_attentions", "decoder": "decoder_attentions"}
    names["cross"] = "cross_attentions"
    found = {
        stack: [w for w in getattr(answer, name, None) or () if w is not None]
        for stack, name in names.items()
    }
    if not any(found.values()):
        raise NotApplicable("the architecture gives no attention weights")
    return found


def _largest(parts: Iterable[Tensor]) -> float:
    """The largest entry of all; NaN if there is one."""
    return float(torch.stack([part.max() for part in parts]).max())


def _change_half(ids: Tensor) -> Tensor:
    """The same ids (B, T), those of the second half each exchanged for a neighbour in the vocabulary."""
    neighbours = torch.where(ids > 0, ids - 1, ids + 1)
    kept = ids.shape[1] // 2
    return torch.cat([ids[:, :kept], neighbours[:, kept:]], dim=1)
