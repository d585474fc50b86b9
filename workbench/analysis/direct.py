"""Which component wrote a logit: every part's share, adding up to the logit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from transformers.pytorch_utils import Conv1D

from workbench.analysis.lens import TargetToken, different_targets, target_token
from workbench.errors import TraceError
from workbench.models import Kind, LoadedModel
from workbench.models.dispatched import weights_in_memory
from workbench.scoring import project_only
from workbench.shapes import Array
from workbench.statistics import Statistic
from workbench.terminal import counted
from workbench.trace import Edit, Route, Site, Stack, Structure, Text, intervene, structure_of
from workbench.trace.parts import on_output, parts_of
from workbench.trace.residual import Reading, StackRun, check_stack, read_text, run_from, run_stack

__all__ = ["Biases", "DirectAttribution", "direct_logit_attribution", "frozen_path"]

_TOLERANCE = 1e-3  # of the largest entry: how well a norm must be described by scale, gain and bias


@dataclass
class Biases:
    """Constants that enter the path: ``terms[i]`` is multiplied with the gradient at ``places[i]``."""

    places: list[Tensor]
    terms: list[Tensor]


@contextmanager
def frozen_path(model: nn.Module, cut: set[nn.Module]) -> Iterator[Biases]:
    """While open, norms and activations are linear in their input; biases on the way are collected.

    ``cut`` are modules whose outputs are taken as they are.
    """
    biases = Biases([], [])
    with ExitStack() as stack:
        stack.enter_context(_FrozenFunctions())
        for module in model.modules():
            if module in cut:
                continue
            if isinstance(module, nn.Linear | Conv1D):
                if module.bias is not None:
                    stack.callback(module.register_forward_hook(_collect(biases)).remove)
            elif not list(module.children()) and not isinstance(module, nn.Embedding):
                stack.callback(module.register_forward_hook(_freeze(biases)).remove)
        yield biases


class _FrozenFunctions(TorchFunctionMode):
    """Activations that are called as functions keep their slope; so do those written with ``erf``."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        output = func(*args, **kwargs) if kwargs else func(*args)
        if func is torch.erf:
            return output.detach()
        if func in _ACTIVATIONS and isinstance(args[0], Tensor) and args[0].requires_grad:
            return args[0] * _slope(args[0].detach(), output.detach())
        return output


_ACTIVATIONS = {F.gelu, F.relu, F.silu, F.elu, F.mish}


def _collect(biases: Biases) -> Callable[..., None]:
    def hook(module: nn.Module, arguments: tuple[Tensor, ...], output: Tensor) -> None:
        if output.requires_grad:
            with weights_in_memory(module):
                bias = module.bias
            assert isinstance(bias, Tensor)
            biases.places.append(output)
            biases.terms.append(bias.detach())

    return hook


def _freeze(biases: Biases) -> Callable[..., Tensor | None]:
    def hook(module: nn.Module, arguments: tuple[object, ...], output: object) -> Tensor | None:
        given = arguments[0] if len(arguments) == 1 else None
        if not isinstance(given, Tensor) or not isinstance(output, Tensor) or not given.requires_grad:
            return None
        if given.shape != output.shape:
            return None
        norm = _linear_norm(module, given.detach(), output.detach())
        if norm is not None:
            scale, centred, bias = norm
            constant = bias.expand_as(output).clone().requires_grad_()
            biases.places.append(constant)
            biases.terms.append(bias)
            return (given - given.mean(-1, keepdim=True) if centred else given) * scale + constant
        if any(True for _ in module.parameters()):
            return None
        return given * _slope(given.detach(), output.detach())

    return hook


def _linear_norm(
    module: nn.Module, given: Float[Tensor, "B T D"], output: Float[Tensor, "B T D"]
) -> tuple[Float[Tensor, "B T D"], bool, Float[Tensor, " D"]] | None:
    """Scale, whether the mean is subtracted, and bias of a norm at this input, found by asking it; or ``None``.

    A norm maps v to scale · gain * (v or v - mean) + bias, whatever the length of v. Two opposite vectors tell gain
    and bias apart, a shifted one tells whether the mean matters, and the output tells the scale.
    """
    probe = _zero_mean(given.shape[-1], given)
    with torch.no_grad():
        plus, minus, shifted, longer = module.forward(torch.stack([probe, -probe, probe + 1, 2 * probe]))
        if not torch.allclose(plus, longer, rtol=_TOLERANCE, atol=1e-4):
            return None
        bias, gain = (plus + minus) / 2, (plus - minus) / 2 / probe
        centred = bool(torch.allclose(plus, shifted, atol=1e-4))
        direction = (given - given.mean(-1, keepdim=True) if centred else given) * gain
        square = (direction * direction).sum(-1, keepdim=True)
        size = ((output - bias) * direction).sum(-1, keepdim=True) / square.clamp_min(1e-30)
        fitted = size * direction + bias
    if not bool(((fitted - output).abs() <= _TOLERANCE * output.abs().amax().clamp_min(1e-6)).all()):
        return None
    return size * gain, centred, bias


def _zero_mean(width: int, like: Tensor) -> Float[Tensor, " D"]:
    """A vector of mean zero without a zero in it."""
    probe = torch.ones(width, dtype=like.dtype, device=like.device)
    probe[1::2] = -1
    if width % 2:
        probe[-1] = 2
        probe[-3] = -1 if width > 2 else probe[-3]
        probe = probe - probe.mean() if width > 2 else probe
    return probe


def _slope(given: Tensor, output: Tensor) -> Tensor:
    """output / input, elementwise; what passes zero contributes nothing either way."""
    small = given.abs() < 1e-7
    return torch.where(
        small, torch.zeros_like(output), output / torch.where(small, torch.ones_like(given), given)
    )


_LARGEST_REMAINDER = (
    1e-3  # of the sum of magnitudes; beyond it the path is not linear and nothing is attributed
)


@dataclass(frozen=True, eq=False)
class DirectAttribution:
    """Shares of one logit, or of the difference of two, in logits.

    ``logit`` is what the model computes; ``embeddings``, ``heads``, ``cross_heads``, ``mlp`` and ``biases`` add up
    to it but for ``remainder``, which is rounding. Biases include one that is added behind the output layer; ``note``
    says so, and where the model scales or caps logits afterwards, which is not part of ``logit``.
    """

    model: str
    token: str  # read at the place that predicts
    place: int
    target: TargetToken
    contrast: TargetToken | None
    logit: float
    embeddings: float
    heads: Float[Array, "layer head"]
    cross_heads: Float[Array, "layer head"] | None
    mlp: Float[Array, " layer"]
    biases: float
    note: str = ""

    @property
    def total(self) -> float:
        """Sum of all shares."""
        cross = 0.0 if self.cross_heads is None else float(self.cross_heads.sum())
        return self.embeddings + float(self.heads.sum()) + cross + float(self.mlp.sum()) + self.biases

    @property
    def remainder(self) -> float:
        """What the shares leave unexplained."""
        return self.logit - self.total

    @property
    def attention(self) -> Float[Array, " layer"]:
        """Sum over the heads of each layer, those of cross-attention included."""
        return self.heads.sum(1) if self.cross_heads is None else self.heads.sum(1) + self.cross_heads.sum(1)

    def statistic(self) -> Statistic:
        """Layer by part: each head, then the cross-attention's heads, then the feed-forward part."""
        columns = [self.heads, *([] if self.cross_heads is None else [self.cross_heads]), self.mlp[:, None]]
        names = [f"head {n}" for n in range(self.heads.shape[1])]
        names += [] if self.cross_heads is None else [f"cross {n}" for n in range(self.cross_heads.shape[1])]
        what = repr(self.target.text) + ("" if self.contrast is None else f" - {self.contrast.text!r}")
        parts = (
            f"embeddings {self.embeddings:+.3f}, biases {self.biases:+.3f}, remainder {self.remainder:+.1e}"
        )
        return Statistic(
            name=f"direct logit attribution of {what}",
            unit="logit",
            values=np.concatenate(columns, axis=1),
            axes=("layer", "component"),
            labels={"layer": tuple(range(len(self.mlp))), "component": (*names, "mlp")},
            note="; ".join(
                [f"logit {self.logit:.4f} after {self.token!r}: {parts}", *([self.note] if self.note else [])]
            ),
        )


def direct_logit_attribution(
    model: LoadedModel,
    text: Text,
    target: str | None = None,
    contrast: str | None = None,
    *,
    position: int | None = None,
    target_text: Text | None = None,
) -> DirectAttribution:
    """What each head and feed-forward part writes into a logit directly, all norms held at their scale.

    Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits": the residual stream is a sum, and what
    reads it is linear once the norms' scales are constants; Wang et al. 2022, section 3.1. Holds for every
    placement of the norms: in post-norm models each part passes the norms after it, and in a masked-LM head the
    activation keeps its slope. By default the target is the likeliest token.

    Args:
        model: a model with a vocabulary head.
        text: what it reads.
        target: the word whose logit is attributed.
        contrast: a word whose logit is subtracted.
        position: the place that predicts; the last by default, or the first mask of a masked model.
        target_text: what the decoder of an encoder-decoder reads; generated by default.

    Raises:
        ModelError: the model has no vocabulary head.
        TraceError: heads or feed-forward parts cannot be told apart in this architecture (attention outside the
            attention interface, a mixture of experts), or the path is not linear.
        DataError: a target that is not in the vocabulary.
    """
    model.require(Kind.CAUSAL, Kind.MASKED, Kind.SEQ2SEQ, verb="direct logit attribution")
    structure = structure_of(model.model)
    _check(model, structure)
    check_stack(model)
    reading = read_text(model, text, target_text)
    place = _place(model, reading.alignment.ids, position)
    shares, run, (wanted, other), whole = _shares(model, structure, reading, place, (target, contrast))
    shares, said = _to_the_end(model, run, shares, whole)
    result = DirectAttribution(
        model=model.name,
        token=reading.alignment.tokens[place],
        place=place,
        target=wanted,
        contrast=other,
        note="; ".join([*(t.note for t in (wanted, other) if t is not None and t.note), *said]),
        **vars(shares),
    )
    size = abs(result.heads).sum() + abs(result.mlp).sum() + abs(result.embeddings) + abs(result.biases)
    if not abs(result.remainder) <= _LARGEST_REMAINDER * max(float(size), 1.0):
        raise TraceError(
            f"the shares of {model.name} leave {result.remainder:.3g} of the logit {result.logit:.3g} unexplained: "
            "what reads its residual stream is not linear with frozen norms"
        )
    return result


def _check(model: LoadedModel, structure: Structure) -> None:
    name = type(model.model).__name__
    if structure.route is Route.OUTPUTS:
        raise TraceError(
            f"{name} computes attention outside transformers' attention interface, so its heads cannot be told apart"
        )
    if not parts_of(model.model).mlp_outputs.get(structure.main):
        raise TraceError(
            f"no feed-forward part with one output layer was found in {name} (mixture of experts?)"
        )


def _place(model: LoadedModel, ids: tuple[int, ...], position: int | None) -> int:
    mask = model.mask_id if model.kind is Kind.MASKED else None
    chosen = position if position is not None else ids.index(mask) if mask in ids else -1
    if not -len(ids) <= chosen < len(ids):
        raise TraceError(f"position {chosen} is out of range: the text has {counted(len(ids), 'token')}")
    return chosen % len(ids)


def _targets(
    model: LoadedModel, logits: Float[Tensor, " V"], target: str | None, contrast: str | None
) -> tuple[TargetToken, TargetToken | None]:
    if target is None:
        best = int(logits.argmax())
        token = str(model.tokenizer.convert_ids_to_tokens(best))
        wanted = TargetToken(token, best, token)
    else:
        wanted = target_token(model, target)
    other = None if contrast is None else target_token(model, contrast)
    different_targets(wanted, other)
    return wanted, other


@dataclass(frozen=True, eq=False)
class _Shares:
    """The numbers of a :class:`DirectAttribution`."""

    logit: float
    embeddings: float
    heads: Float[Array, "layer head"]
    cross_heads: Float[Array, "layer head"] | None
    mlp: Float[Array, " layer"]
    biases: float


def _shares(
    model: LoadedModel,
    structure: Structure,
    reading: Reading,
    place: int,
    words: tuple[str | None, str | None],
) -> tuple[_Shares, StackRun, tuple[TargetToken, TargetToken | None], float]:
    """Run the frozen pass, and multiply each part's value with the gradient there.

    Also returns the run, target and contrast, and what the model itself makes of their logit.
    """
    main, network = structure.main, model.model
    leaves, edits = _cuts(structure)
    ends: list[Tensor] = []
    cut = {network.get_submodule(name) for name in parts_of(network).mlp_outputs[main]}
    with ExitStack() as stack:
        stack.enter_context(torch.enable_grad())
        stack.enter_context(intervene(model, *edits))
        biases = stack.enter_context(frozen_path(network, cut))
        stack.enter_context(on_output(network.get_output_embeddings(), ends.append))
        only = torch.tensor([place], device=model.device)
        projected = stack.enter_context(project_only(network, only, (1, len(reading))))
        run = run_stack(model, reading.inputs, leaf=True)
        if not ends:
            raise TraceError(
                f"the output layer of {type(network).__name__} is not one module that can be watched"
            )
        said = projected.chosen(run.logits)[0]
        rows = ends[0].reshape(-1, ends[0].shape[-1])
        targets = _targets(model, said, *words)
        logit = _difference(rows[place if len(rows) > 1 else 0], targets)
        parts = [run.states[0], *(t for found in leaves.values() for t in found.values()), *biases.places]
        gradients = iter(torch.autograd.grad(logit, parts, allow_unused=True))
    embeddings = _product(next(gradients), run.states[0])
    shares = {
        key: {layer: _product(next(gradients), leaf, _head_axis(key[0])) for layer, leaf in found.items()}
        for key, found in leaves.items()
    }
    constants = [_product(gradient, term) for gradient, term in zip(gradients, biases.terms, strict=True)]
    by_layer = {key: np.stack([found[n] for n in sorted(found)]) for key, found in shares.items()}
    found = _Shares(
        logit=float(logit.detach()),
        embeddings=float(embeddings),
        heads=by_layer[Site.HEAD_OUTPUT, main],
        cross_heads=by_layer.get((Site.HEAD_OUTPUT, Stack.CROSS)),
        mlp=by_layer[Site.MLP, main],
        biases=float(sum(float(c) for c in constants)),
    )
    return found, run, targets, float(_difference(said.detach(), targets))


def _cuts(structure: Structure) -> tuple[dict[tuple[Site, Stack], dict[int, Tensor]], list[Edit]]:
    """The parts that write into the stream, each to be filled by layer, and the edits that do so and cut there."""
    sites = [(Site.HEAD_OUTPUT, structure.main), (Site.MLP, structure.main)]
    sites += [(Site.HEAD_OUTPUT, Stack.CROSS)] if Stack.CROSS in structure.layers else []
    leaves: dict[tuple[Site, Stack], dict[int, Tensor]] = {key: {} for key in sites}
    edits = [
        Edit(site, layer, _cut(leaves[site, stack], layer), stack=stack)
        for site, stack in sites
        for layer in range(structure.layers[stack])
    ]
    return leaves, edits


def _difference(
    scores: Float[Tensor, " V"], targets: tuple[TargetToken, TargetToken | None]
) -> Float[Tensor, ""]:
    """The target's logit, less the contrast's where there is one."""
    wanted, other = targets
    return scores[wanted.id] if other is None else scores[wanted.id] - scores[other.id]


def _to_the_end(
    model: LoadedModel, run: StackRun, shares: _Shares, whole: float
) -> tuple[_Shares, list[str]]:
    """The shares with a bias behind the output layer, and what else the model makes of its logits, in words."""
    behind = whole - shares.logit
    if abs(behind) <= 1e-4 * max(1.0, abs(shares.logit)):
        return shares, []
    what = _behind_output(model, run)
    if what == "adds a bias":
        said = f"of the biases, {behind:+.4f} is added behind the output layer"
        return replace(shares, logit=whole, biases=shares.biases + behind), [said]
    return shares, [f"before the model {what}: {shares.logit:.4f} becomes {whole:.4f}"]


def _behind_output(model: LoadedModel, run: StackRun) -> str:
    """What stands between the output layer and the logits, found on the run's last states and on half of them."""
    ends: list[Tensor] = []
    with torch.no_grad(), on_output(model.model.get_output_embeddings(), ends.append):
        states = torch.cat([run.states[-1], run.states[-1] / 2])
        given = run_from(model, run, run.layers, states).double()
    before = ends[0].double().reshape(given.shape)
    limit = _TOLERANCE * float(given.abs().max())
    moved = given - before
    if float((moved - moved[:1, :1]).abs().max()) <= limit:
        return "adds a bias"
    factor = float((given * before).sum() / before.square().sum())
    if float((given - factor * before).abs().max()) <= limit:
        return f"multiplies its logits by {factor:.4g}"
    return "caps its logits, or changes them in another way that is not linear"


def _cut(found: dict[int, Tensor], layer: int) -> Callable[[Tensor], Tensor]:
    """A change that takes a part's output as given: nothing flows on to what it was computed from."""

    def change(values: Tensor) -> Tensor:
        found[layer] = values.detach().clone().requires_grad_()
        return found[layer]

    return change


def _head_axis(site: Site) -> bool:
    return site is Site.HEAD_OUTPUT


def _product(gradient: Tensor | None, value: Tensor, by_head: bool = False) -> Array:
    """Sum of gradient times value: one number, or one for each head of (B, T, H, d)."""
    if gradient is None:
        return np.zeros(value.shape[2] if by_head else ())
    product = (gradient.double() * value.detach().double()).cpu()
    found: Array = (product.sum((0, 1, 3)) if by_head else product.sum()).numpy()
    return found
