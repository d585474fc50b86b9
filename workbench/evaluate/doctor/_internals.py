"""Checks inside a model: attention rows sum to one, nothing looks ahead, gradients agree with finite differences."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from workbench.evaluate.doctor._invariance import eager_attention
from workbench.evaluate.doctor._records import Finding, NotApplicable, Status, agree, judge
from workbench.evaluate.doctor._subject import Batch, outputs, padded, sample_sequences, truncate
from workbench.models import Kind, LoadedModel
from workbench.models.dispatched import is_offloaded
from workbench.trace.structure import not_distributions

__all__ = ["attention_rows", "causal_attention", "causal_outputs", "gradient"]

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
    kind = not_distributions(loaded.model)
    if kind is not None:
        raise NotApplicable(f"rows of {kind} need not sum to 1, by design")
    deviation = _largest((layer.double().sum(-1) - 1).abs() for layer in weights)
    tolerance = max(4 * torch.finfo(loaded.dtype).eps, 1e-6)
    return judge(deviation, tolerance, f"|sum of weights - 1| over {len(weights)} attention layers")


def causal_attention(loaded: LoadedModel) -> Finding:
    """A causal model gives no weight to later tokens. Value: the largest weight above the diagonal."""
    _require_causal(loaded)
    stack = _weights(loaded)["decoder" if loaded.kind is Kind.SEQ2SEQ else "self"]
    if not stack:
        raise NotApplicable("the decoder has no self-attention")
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


_LARGEST = 300_000_000  # parameters whose float64 copy is made (2.4 GB)


_TOKENS = 10


# A kink of a ReLU within the step spoils a difference; at a hundredth of the step it is hardly ever there
# again, while a wrong gradient is wrong at every step.
_STEPS = (1e-5, 1e-7)


# Central differences err by step² · f''' / 6 and by epsilon · loss / step: 1e-9 to 1e-8 of the gradient. What is
# left over is for curvature of the loss at embeddings that are small themselves.
_TOLERANCE = 1e-4


def gradient(loaded: LoadedModel) -> Finding:
    """Back-propagated gradient against central differences at six entries of the embeddings of a short text.

    Three entries have the largest gradient, three are drawn with a fixed seed. Value: the largest
    difference, as a share of the largest of these gradients. Works on a float64 copy.
    """
    if loaded.num_parameters > _LARGEST:
        millions = round(loaded.num_parameters / 1e6)
        raise NotApplicable(f"{millions} M parameters; a float64 copy is made up to {_LARGEST // 10**6} M")
    if loaded.device.type == "mps":
        raise NotApplicable("the device has no float64")
    if is_offloaded(loaded.model):
        raise NotApplicable("weights are offloaded; a float64 copy needs them in memory")
    sequence = truncate(sample_sequences(loaded)[1], _TOKENS)
    model = _float64_copy(loaded.model)
    weight = model.get_input_embeddings().weight.requires_grad_(True)
    with _Float64():
        batch = padded(loaded, [sequence])
        return _compare(weight, lambda: _loss(model, loaded.kind, batch), sorted(set(sequence)))


def _float64_copy(model: nn.Module) -> Any:
    try:
        return copy.deepcopy(model).double().requires_grad_(False)
    except torch.OutOfMemoryError as error:
        raise NotApplicable("the device has no memory left for a float64 copy") from error


def _compare(weight: Tensor, loss: Callable[[], Tensor], rows: list[int]) -> Finding:
    try:
        value = loss()
    except RuntimeError as error:  # fused kernels and masks made for float32
        reason = str(error).splitlines()[0][:120]
        raise NotApplicable(f"the architecture does not run in float64: {reason}") from error
    found = torch.autograd.grad(value, weight, allow_unused=True)[0] if value.requires_grad else None
    if found is None:
        return Finding(
            Status.FAIL, None, _TOLERANCE, "no gradient reaches the embeddings: the graph is broken"
        )
    entries = _entries(found, rows)
    analytic = torch.stack([found[entry] for entry in entries])
    detail = f"{len(entries)} embedding entries, largest gradient {float(analytic.abs().max()):.3g}, float64"
    share = float("inf")
    for step in _STEPS:
        numeric = _central_differences(weight, entries, loss, step)
        largest = float(torch.maximum(analytic.abs(), numeric.abs()).max())
        if largest == 0.0:
            return Finding(Status.FAIL, 0.0, _TOLERANCE, "the loss does not depend on the embeddings")
        share = float((analytic - numeric).abs().max()) / largest
        if share <= _TOLERANCE:
            break
    return judge(share, _TOLERANCE, detail)


def _entries(gradients: Tensor, rows: list[int]) -> list[tuple[int, int]]:
    """(row, column) of the three largest gradients in ``rows``, and of three others drawn with a fixed seed."""
    chosen = gradients[rows].abs()
    width = chosen.shape[1]
    drawn = torch.randint(chosen.numel(), (3,), generator=torch.Generator().manual_seed(0))
    places = [*chosen.flatten().topk(min(3, chosen.numel())).indices.tolist(), *drawn.tolist()]
    return [(rows[place // width], place % width) for place in dict.fromkeys(places)]


@torch.no_grad()
def _central_differences(
    weight: Tensor, entries: list[tuple[int, int]], loss: Callable[[], Tensor], step: float
) -> Tensor:
    """(f(w + h) - f(w - h)) / 2h for each entry, which is put back."""
    found = []
    for entry in entries:
        before = weight[entry].clone()
        weight[entry] = before + step
        above = loss()
        weight[entry] = before - step
        found.append((above - loss()) / (2 * step))
        weight[entry] = before
    return torch.stack(found)


def _loss(model: Any, kind: Kind, batch: Batch) -> Tensor:
    """Mean cross-entropy of a language model (nats a token); for other kinds a fixed weighting of the outputs."""
    found = outputs(model, batch)
    if kind is Kind.CAUSAL:
        return F.cross_entropy(found[0, :-1], batch.ids[0, 1:])
    if kind is Kind.MASKED:
        return F.cross_entropy(found[0], batch.ids[0])
    if kind is Kind.SEQ2SEQ and batch.decoder_ids is not None:
        return F.cross_entropy(found[0, :-1], batch.decoder_ids[0, 1:])
    weights = torch.arange(found.numel(), dtype=found.dtype, device=found.device).cos()
    return found.flatten() @ weights / found.numel()


class _Float64(TorchFunctionMode):
    """While open, what a model computes in float32 on purpose (norms, softmax) is computed in float64."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Put float64 wherever a call names float32."""
        if func is torch.Tensor.float:
            return args[0].double()
        wider = {name: _wider(value) for name, value in (kwargs or {}).items()}
        return func(*map(_wider, args), **wider)


def _wider(value: Any) -> Any:
    return torch.float64 if value is torch.float32 else value
