"""How requests are computed, and how many tokens the model reads for them, padding included."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from workbench.models import LoadedModel
from workbench.scoring import Engine

__all__ = ["Count", "InferenceOptions", "counted_tokens"]


@dataclass(frozen=True)
class InferenceOptions:
    """The scorer's policy for first tokens, tokens of a forward pass, a bar or none, the seed of what is sampled.

    ``boundary`` says where continuations begin (:class:`workbench.scoring.Boundary`), ``keep_bos`` whether truncated
    contexts and prompts, and every window of a long text, begin with BOS (:class:`workbench.scoring.Engine`).
    """

    first_token: str = "auto"
    batch_tokens: str | int = "auto"
    progress: bool = False
    seed: int = 0
    boundary: str = "joint"
    keep_bos: bool = False

    def engine(self, model: LoadedModel) -> Engine:
        """The engine that scores continuations and texts with a causal model."""
        return Engine(model, self.first_token, self.batch_tokens, self.progress, self.boundary, self.keep_bos)


@dataclass
class Count:
    """Grows with each forward pass."""

    tokens: int = 0


@contextmanager
def counted_tokens(module: Any) -> Iterator[Count]:
    """While open, the count holds the tokens that went into ``module``; 0 without one."""
    count = Count()
    if module is None:
        yield count
        return

    def see(_module: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        for name in ("input_ids", "decoder_input_ids"):
            ids = named.get(name)
            count.tokens += ids.numel() if ids is not None else 0
        if "input_ids" not in named and arguments:
            count.tokens += arguments[0].numel()

    handle = module.register_forward_pre_hook(see, with_kwargs=True)
    try:
        yield count
    finally:
        handle.remove()
