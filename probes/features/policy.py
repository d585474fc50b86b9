"""What is read from a model, and how the tokens of a place become one vector."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass

from probes._data import Unit
from workbench.errors import ConfigError, TaskError, did_you_mean
from workbench.models import Kind, LoadedModel
from workbench.trace import Stack, Structure

__all__ = ["POOLS", "SITES", "Policy", "chosen_layers", "parse_site", "resolve_pool"]

POOLS = ("first", "last", "mean", "cls")
SITES = ("residual", "attention_out", "mlp_out", "head:LAYER.HEAD")
_HEAD = re.compile(r"head:(\d+)\.(\d+)")


@dataclass(frozen=True)
class Policy:
    """How features are made; part of a store's key.

    ``pool``: the vector of a place is that of its ``first`` token, its ``last``, the ``mean`` of its tokens,
    or (``cls``) of the text's first token whatever the place. A word that shares a token with its neighbour
    has that token too. ``what`` is the residual stream after each layer (0: the embeddings), what attention
    or the feed-forward part adds, or one head's output before its projection.
    """

    pool: str
    what: str = "residual"
    stack: str = "encoder"
    layers: tuple[int, ...] = ()

    def key(self, model: LoadedModel, data_hash: str) -> str:
        """Name of the store of this policy: any other weights, precision or data give another."""
        about = {
            **asdict(self),
            "weights": model.content_hash,
            "dtype": str(model.dtype),
            "implementation": model.implementation,
            "data": data_hash,
            **({"prompt": asdict(model.prompt)} if model.prompt.prompt else {}),
            "format": 2,
        }
        return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()


def resolve_pool(pool: str, model: LoadedModel, unit: Unit) -> str:
    """``auto`` is the mean over sentences and spans; for words the first token, or a decoder's last.

    A decoder has read the whole word only at its last token. Raises :class:`ConfigError` for other names.
    """
    if pool == "auto":
        if unit in (Unit.SENTENCE, Unit.SPAN):
            return "mean"
        return "last" if model.kind is Kind.CAUSAL else "first"
    if pool not in POOLS:
        raise ConfigError(f"unknown pool {pool!r}; {did_you_mean(pool, ['auto', *POOLS])}")
    return pool


def parse_site(what: str) -> tuple[str, int | None, int | None]:
    """``head:3.1`` as ("head", 3, 1), any other site as (site, None, None)."""
    if match := _HEAD.fullmatch(what):
        return "head", int(match[1]), int(match[2])
    if what not in SITES[:3]:
        raise ConfigError(f"cannot probe {what!r}; allowed: {', '.join(SITES)}")
    return what, None, None


def chosen_layers(
    layers: str | tuple[int, ...], what: str, structure: Structure, stack: Stack
) -> tuple[int, ...]:
    """The layer numbers to keep; raises :class:`TaskError` with the allowed range for one out of it."""
    site, layer, head = parse_site(what)
    if site == "head":
        structure.check(stack, (layer or 0,), (head or 0,))
        return (layer or 0,)
    count = structure.layers[stack] + (site == "residual")
    if layers == "all":
        return tuple(range(count))
    numbers = tuple(int(n) for n in layers)
    wrong = [n for n in numbers if not 0 <= n < count]
    if wrong or not numbers:
        counting = "0 is the embeddings" if site == "residual" else "counted from 0"
        raise TaskError(
            f"layer {wrong[0] if wrong else 'list ()'} is out of range: the {stack} has layers 0 to "
            f"{count - 1} of {site} ({counting})"
        )
    return tuple(dict.fromkeys(numbers))
