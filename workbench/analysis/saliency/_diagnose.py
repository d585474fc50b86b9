"""Which layer is to blame when gradients are missing or not finite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from workbench.errors import ModelError, NumericsError
from workbench.models import LoadedModel

__all__ = ["no_gradient", "not_finite"]


class Scored(Protocol):
    """What is read of an embedding model here."""

    model: LoadedModel

    def score(self, embeddings: Tensor, rows: Tensor) -> Tensor:
        """The target's value of each row."""
        ...


def no_gradient(embedded: Scored, embeddings: Tensor, rows: Tensor) -> ModelError:
    """The error that names the part which takes a gradient in and lets none out."""
    culprits: list[str] = []

    def look(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, arguments: Any, keywords: Any, output: Any) -> None:
            tensors = [a for a in (*arguments, *keywords.values()) if isinstance(a, Tensor)]
            results = [
                o for o in (output if isinstance(output, tuple) else (output,)) if isinstance(o, Tensor)
            ]
            took = any(t.requires_grad for t in tensors)
            if took and results and not any(r.requires_grad for r in results):
                culprits.append(f"{name} ({type(module).__name__})")

        return hook

    with _forward_hooks(embedded.model.model, look), torch.enable_grad():
        embedded.score(embeddings.detach().requires_grad_(), rows)
    # behind the last of them nothing has a gradient any more; earlier ones (rotary angles) lost it in passing
    where = culprits[-1] if culprits else type(embedded.model.model).__name__
    return ModelError(
        f"no gradient reaches the embeddings of {embedded.model.name}: {where} computes without gradients (fused or "
        "quantised); use a method without gradients, such as occlusion, or load the model in float32"
    )


def not_finite(embedded: Scored, embeddings: Tensor, rows: Tensor) -> NumericsError:
    """The error that names the part where values, or going backwards gradients, first are not finite."""
    forward: list[str] = []
    backward: list[str] = []

    def look(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, arguments: Any, keywords: Any, output: Any) -> None:
            tensor = output[0] if isinstance(output, tuple) else output
            if not isinstance(tensor, Tensor):
                return
            if not torch.isfinite(tensor).all():
                forward.append(name)
            if tensor.requires_grad:
                tensor.register_hook(lambda g: None if torch.isfinite(g).all() else backward.append(name))

        return hook

    with _forward_hooks(embedded.model.model, look), torch.enable_grad():
        inputs = embeddings.detach().requires_grad_()
        torch.autograd.grad(embedded.score(inputs, rows).sum(), inputs)
    if forward:
        return NumericsError(
            f"the output of layer {forward[0]!r} of {embedded.model.name} is NaN or infinite; check its weights: "
            "workbench doctor MODEL"
        )
    where = f"behind layer {backward[0]!r}" if backward else "at the embeddings"
    # zeros stay zeros in layers without biases, where an RMS norm has the slope 1 / sqrt(eps)
    if not embeddings.any(-1).all():
        return NumericsError(
            f"the gradient {where} of {embedded.model.name} is beyond its type: from embeddings of zero each norm "
            "multiplies it by hundreds; use --baseline mean or pad, or a method without gradients, such as occlusion"
        )
    return NumericsError(
        f"the gradient {where} of {embedded.model.name} is NaN or infinite; use --dtype float32, another --baseline, "
        "or a method without gradients, such as occlusion"
    )


@contextmanager
def _forward_hooks(model: nn.Module, look: Callable[[str], Callable[..., None]]) -> Iterator[None]:
    """A forward hook on every part without parts of its own."""
    with ExitStack() as stack:
        for name, module in model.named_modules():
            if not list(module.children()):
                handle = module.register_forward_hook(look(name), with_kwargs=True)
                stack.callback(handle.remove)
        yield
