"""What attention a model has: found by running it on a few tokens, never from its architecture's name."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from workbench.errors import TraceError
from workbench.models.dispatched import input_device
from workbench.trace.attention_hook import (
    IMPLEMENTATION,
    AttentionCall,
    Session,
    Stack,
    Watcher,
    attention_implementation,
    opened,
)

__all__ = [
    "Route",
    "Structure",
    "cache_argument",
    "call_model",
    "differ",
    "not_distributions",
    "require_distributions",
    "sample_inputs",
    "stacks_of",
    "structure_of",
]

# Source and target lengths of the examination differ, so that keys tell where they come from.
_SOURCE, _TARGET = 5, 3
_TOLERANCE = 1e-3  # of the largest entry; rounding is far below it in float32
_COARSE_TOLERANCE = 0.05


class Route(StrEnum):
    """How attention is observed: at the attention function, or in the model's own outputs."""

    INTERFACE = "attention interface"
    OUTPUTS = "output_attentions"


@dataclass(frozen=True)
class Structure:
    """The attention of one model. Layers are numbered in the order in which they compute attention.

    Stacks without self-attention (of a model that only attends from decoder to encoder, or does not attend at all)
    count the layers of their hidden states, and have 0 heads.
    """

    route: Route
    main: Stack  # the stack whose output the head reads
    roots: Mapping[Stack, str]  # name of each stack's module in the model; names keep no model alive
    sites: Mapping[int, Stack]  # id of an attention module -> its stack; empty on the outputs route
    layers: Mapping[Stack, int]
    heads: Mapping[Stack, int]
    pooled: frozenset[int] = (
        frozenset()
    )  # layers of the main stack that run at fewer places than there are tokens

    def stack(self, name: str | None) -> Stack:
        """The stack called ``name`` (``None``: the main one); raises :class:`TraceError` if there is none."""
        if name is None:
            return self.main
        if name not in self.layers:
            raise TraceError(f"the model has no {str(name)!r} attention; it has {', '.join(self.layers)}")
        return Stack(name)

    @property
    def shown(self) -> Stack:
        """The attention that views begin with: the main stack's or, without any, that from decoder to encoder."""
        return self.main if self.heads[self.main] or Stack.CROSS not in self.heads else Stack.CROSS

    def attending(self, stack: Stack) -> Stack:
        """``stack`` itself; raises :class:`TraceError` if it has no attention."""
        if not self.heads[stack]:
            having = ", ".join(name for name, heads in self.heads.items() if heads)
            raise TraceError(f"the {stack} of this model has no self-attention; attention it has: {having}")
        return stack

    def root(self, model: Any, stack: Stack) -> nn.Module:
        """The module that runs a stack of the model which this structure is of."""
        return cast(nn.Module, model.get_submodule(self.roots[stack]))

    def check_places(self, stack: Stack, layers: Iterable[int]) -> None:
        """Raise :class:`TraceError` if one of the layers runs at fewer places than there are tokens."""
        few = sorted(set(layers) & self.pooled) if stack is self.main else []
        if few:
            several = f"layers {', '.join(map(str, few))} run" if len(few) > 1 else f"layer {few[0]} runs"
            raise TraceError(
                f"{several} at fewer places than there are tokens, so what it computes is of no single token; "
                "hidden states can be recorded: record={'hidden'}"
            )

    def check(
        self, stack: Stack, layers: Iterator[int] | tuple[int, ...], heads: tuple[int, ...] = ()
    ) -> None:
        """Raise :class:`TraceError` with the allowed range if a layer or head is out of it."""
        for noun, numbers, count in (
            ("layer", layers, self.layers[stack]),
            ("head", heads, self.heads[stack]),
        ):
            for number in numbers:
                if count == 0:
                    self.attending(stack)
                if not 0 <= number < count:
                    raise TraceError(
                        f"{noun} {number} is out of range: the {stack} has {noun}s 0 to {count - 1}"
                    )


_known: WeakKeyDictionary[nn.Module, Structure] = WeakKeyDictionary()


def structure_of(model: Any) -> Structure:
    """Examine a transformers model (once); raises :class:`TraceError` if no attention can be observed."""
    found = stacks_of(model)
    if not any(found.heads.values()):
        raise _no_attention(model)
    return found


def stacks_of(model: Any) -> Structure:
    """As :func:`structure_of`, also of a model without attention, for what is recorded of its hidden states."""
    if model not in _known:
        _known[model] = _examine(model)
    return _known[model]


def not_distributions(model: nn.Module) -> str | None:
    """The kind of attention in ``model`` whose rows need not sum to one, by what it says of itself; ``None``: none."""
    found = (m for m in model.modules() if not getattr(m, "rows_sum_to_one", True))
    return next((type(module).__name__ for module in found), None)


def require_distributions(model: nn.Module, verb: str) -> None:
    """Raise :class:`TraceError` where rows of attention are no distributions over tokens by design."""
    kind = not_distributions(model)
    if kind is not None:
        raise TraceError(
            f"{verb} needs attention whose rows are distributions over tokens; those of {kind} need not sum to one "
            "and may be negative, by design: draw them with workbench attend MODEL TEXT"
        )


def _no_attention(model: Any) -> TraceError:
    return TraceError(
        f"{type(model).__name__} returns no attention weights, neither at the attention function nor "
        "with output_attentions=True; hidden states and logits can be recorded: record={'hidden', 'logits'}"
    )


@dataclass
class _Examiner(Watcher):
    """Remembers shape and direction of every attention call."""

    seen: list[tuple[int, tuple[int, ...], bool]] = field(default_factory=list)

    def on_weights(self, call: AttentionCall) -> Tensor:
        """Look at the weights."""
        self.seen.append((id(call.module), tuple(call.weights.shape), looks_ahead(call.weights)))
        return call.weights


def looks_ahead(weights: Tensor) -> bool:
    """Whether any query gives weight to a later position; (B, H, Q, K)."""
    return bool(weights.triu(1).abs().max() > 0)


def _examine(model: Any) -> Structure:
    examiner = _Examiner()
    everywhere = dict.fromkeys(map(id, model.modules()), Stack.DECODER)
    with ExitStack() as stack:
        stack.enter_context(attention_implementation(model, IMPLEMENTATION))
        stack.enter_context(opened(Session(everywhere, (examiner,))))
        call_model(model.base_model, **sample_inputs(model))
    if not examiner.seen:
        return _from_outputs(model)
    roots, encoder_modules = _roots(model, any(ahead for _, _, ahead in examiner.seen))
    main = next(reversed(roots))
    sites: dict[int, Stack] = {}
    layers: dict[Stack, int] = {}
    heads: dict[Stack, int] = {}
    for module, (_, head_count, queries, keys), _ in examiner.seen:
        is_cross = queries != keys and model.config.is_encoder_decoder  # elsewhere queries are pooled
        where = Stack.ENCODER if module in encoder_modules else Stack.CROSS if is_cross else main
        sites[module] = where
        layers[where] = layers.get(where, 0) + 1
        heads[where] = head_count
    _count_layers(model, layers, heads)
    pooled = frozenset[int]()
    if not model.config.is_encoder_decoder:
        pooled = frozenset(n for n, (_, shape, _) in enumerate(examiner.seen) if shape[2] < _SOURCE)
    return Structure(Route.INTERFACE, main, roots, sites, layers, heads, pooled)


def _count_layers(model: Any, layers: dict[Stack, int], heads: dict[Stack, int]) -> None:
    """Where the decoder has attention to the encoder alone: layers of both by their hidden states."""
    if set(layers) != {Stack.CROSS}:
        return
    output = call_model(model.base_model, output_hidden_states=True, **sample_inputs(model))
    for stack in (Stack.ENCODER, Stack.DECODER):
        hidden = getattr(output, f"{stack}_hidden_states", None)
        layers[stack], heads[stack] = len(hidden or (None,)) - 1, 0


def _roots(model: Any, ahead: bool) -> tuple[dict[Stack, str], frozenset[int]]:
    """Name of each stack's module, the main one last; and the ids of the modules of a separate encoder."""
    names = {id(module): name for name, module in model.named_modules()}
    if not model.config.is_encoder_decoder:
        return {Stack.ENCODER if ahead else Stack.DECODER: names[id(model.base_model)]}, frozenset()
    encoder, decoder = model.get_encoder(), model.get_decoder()
    inside = frozenset(map(id, encoder.modules()))
    return {Stack.ENCODER: names[id(encoder)], Stack.DECODER: names[id(decoder)]}, inside


def _from_outputs(model: Any) -> Structure:
    with attention_implementation(model, "eager", output_attentions=True):
        output = call_model(model.base_model, output_attentions=True, **sample_inputs(model))
    found = {stack: value for stack, value in output_attentions(model, output).items() if value}
    if not found:
        return _from_states(model)
    single = found.pop(None, ())
    roots, _ = _roots(model, bool(single) and any(looks_ahead(weights) for weights in single))
    if single:
        found[next(reversed(roots))] = single
    layers = {stack: len(value) for stack, value in found.items() if stack}
    heads = {stack: value[0].shape[1] for stack, value in found.items() if stack}
    _count_layers(model, layers, heads)
    return Structure(Route.OUTPUTS, next(reversed(roots)), roots, {}, layers, heads)


def _from_states(model: Any) -> Structure:
    """Of a model without attention: the layers of its hidden states, in one stack."""
    takes = inspect.signature(model.base_model.forward).parameters.values()
    gives_states = any(p.name == "output_hidden_states" or p.kind is p.VAR_KEYWORD for p in takes)
    if model.config.is_encoder_decoder or not gives_states:
        raise _no_attention(model)
    inputs = sample_inputs(model)
    other = inputs | {"input_ids": inputs["input_ids"].clone()}
    other["input_ids"][:, -1] += 1
    outputs = [call_model(model.base_model, output_hidden_states=True, **given) for given in (inputs, other)]
    if not all(getattr(output, "hidden_states", None) for output in outputs):
        raise _no_attention(model)
    first, second = (output.hidden_states[-1][:, :-1] for output in outputs)
    roots, _ = _roots(model, differ(first, second))
    main = next(reversed(roots))
    return Structure(Route.OUTPUTS, main, roots, {}, {main: len(outputs[0].hidden_states) - 1}, {main: 0})


def output_attentions(model: Any, output: Any) -> dict[Stack | None, tuple[Tensor, ...]]:
    """Attentions in a model's output by stack; those of a single stack under ``None``."""
    names = {
        None: "attentions",
        Stack.ENCODER: "encoder_attentions",
        Stack.DECODER: "decoder_attentions",
        Stack.CROSS: "cross_attentions",
    }
    found = {stack: tuple(getattr(output, name, None) or ()) for stack, name in names.items()}
    window = getattr(model.config, "attention_window", None)
    if window is not None:  # weights are given by offset from the query, not by key
        windowed = Stack.ENCODER if model.config.is_encoder_decoder else None
        found[windowed] = tuple(_by_key(weights) for weights in found[windowed])
    return found


def _by_key(weights: Tensor) -> Tensor:
    """Weights by offset from the query, (B, H, Q, window + 1), as weights by key, (B, H, Q, Q)."""
    queries, width = weights.shape[2:]
    if width % 2 == 0:
        raise TraceError(
            "tokens with global attention cannot be recognised in the model's output; trace without them"
        )
    position = torch.arange(queries, device=weights.device)[:, None] + torch.arange(
        width, device=weights.device
    )
    wide = weights.new_zeros(*weights.shape[:2], queries, queries + width - 1)
    wide.scatter_(-1, position.expand_as(weights), weights)
    return wide[..., width // 2 : width // 2 + queries]


def differ(first: Tensor, second: Tensor) -> bool:
    """Whether more than rounding lies between two equally shaped outputs; not finite ones differ."""
    exact = first.dtype in (torch.float32, torch.float64)
    limit = (_TOLERANCE if exact else _COARSE_TOLERANCE) * float(first.abs().max())
    return not float((first - second).abs().max()) <= limit


def call_model(model: Any, **inputs: Any) -> Any:
    """One forward pass without gradients, dropout or cache."""
    with torch.no_grad(), evaluating(model):
        return model(**inputs, **without_cache(model))


def without_cache(model: Any) -> dict[str, bool]:
    """The argument that turns a model's key-value cache off, where it has one."""
    return {"use_cache": False} if "use_cache" in inspect.signature(model.forward).parameters else {}


def cache_argument(module: Any) -> str:
    """What the module's forward, and its output, call keys and values that it goes on from: transformers renamed it."""
    return "cache" if "cache" in inspect.signature(module.forward).parameters else "past_key_values"


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Dropout off for a while."""
    if not any(module.training for module in model.modules()):
        yield
        return
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def sample_inputs(model: Any) -> dict[str, Tensor]:
    """A few tokens to examine a model with; source and target differ in length."""

    def ids(length: int) -> Tensor:
        return torch.arange(3, 3 + length, device=input_device(model))[None]

    inputs = {"input_ids": ids(_SOURCE), "attention_mask": torch.ones_like(ids(_SOURCE))}
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = ids(_TARGET)
    return inputs
