"""Run a model on a batch and get one tensor (B, T, D) for each layer, of the site that was asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch import Tensor

from probes.features.policy import SITES, parse_site
from workbench.models import LoadedModel
from workbench.trace import Site, Stack, structure_of
from workbench.trace.capturing import Run, capturing

__all__ = ["SITES", "Run", "capturing_features"]

_TRACED = {"attention_out": Site.ATTENTION_OUT, "mlp_out": Site.MLP, "head": Site.HEAD_OUTPUT}


@contextmanager
def capturing_features(model: LoadedModel, what: str, stack: Stack, layers: Sequence[int]) -> Iterator[Run]:
    """A function from model inputs to the site's tensor at each of ``layers``; hooks end with the block.

    The residual stream begins with the embeddings and ends with what the head reads (after a final norm).
    """
    site, _, head = parse_site(what)
    with capturing(model, _TRACED.get(site), stack, layers) as run:
        yield run if head is None else lambda inputs: [_head(run(inputs)[0], head, model, stack)]


def _head(inputs: Tensor, head: int, model: LoadedModel, stack: Stack) -> Tensor:
    width = inputs.shape[-1] // structure_of(model.model).heads[stack]
    return inputs[..., head * width : (head + 1) * width]
