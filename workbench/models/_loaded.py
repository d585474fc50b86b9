"""The record that :func:`workbench.load` returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from threading import RLock
from typing import Any

import torch

from workbench.errors import ModelError

__all__ = ["Kind", "LoadedModel"]


class Kind(StrEnum):
    """What a model can be asked, decided from its configuration and the weights that are really there."""

    CAUSAL = "causal"
    MASKED = "masked"
    SEQ2SEQ = "seq2seq"
    ENCODER = "encoder"
    CLASSIFIER = "classifier"


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A model in ``eval()`` with its tokenizer and everything needed to say which one it was.

    Immutable to callers: what changes ``model`` for a while is a context manager that puts it back.
    ``lock`` is held around forward passes by callers that share the model between threads.
    """

    model: Any  # a transformers PreTrainedModel
    tokenizer: Any  # a transformers PreTrainedTokenizerBase
    kind: Kind
    name: str
    revision: str | None
    dtype: torch.dtype
    device: torch.device
    implementation: str  # "hf" or "builtin"
    content_hash: str  # SHA-256 over the weight files
    path: Path | None = None
    lock: Any = field(default_factory=RLock, repr=False)

    @property
    def config(self) -> Any:
        """The transformers configuration."""
        return self.model.config

    @property
    def max_length(self) -> int:
        """Longest input in tokens that the position encoding allows."""
        text_config = self.config.get_text_config()
        for name in ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len"):
            value = getattr(text_config, name, None)
            if value and value > 0:  # XLNet says -1: as long as memory lasts
                # RoBERTa's position ids start after the padding id.
                reserved = text_config.pad_token_id + 1 if _positions_after_padding(text_config) else 0
                return int(value) - reserved
        limit = int(getattr(self.tokenizer, "model_max_length", 0) or 0)
        return limit if 0 < limit < 10**9 else 2048

    @property
    def num_parameters(self) -> int:
        """Number of weights, shared ones counted once."""
        return sum(p.numel() for p in self.model.parameters())

    def require(self, *kinds: Kind, verb: str) -> None:
        """Raise :class:`~workbench.errors.ModelError` unless the model is one of ``kinds``."""
        if self.kind in kinds:
            return
        allowed = " or ".join(kinds)
        reason = {
            Kind.ENCODER: "it has no language-model or classification head",
            Kind.CLASSIFIER: "its head is a classifier",
        }.get(self.kind, f"it is a {self.kind} model")
        raise ModelError(f"{verb} needs a {allowed} model; {self.name} is of kind {self.kind}: {reason}")


def _positions_after_padding(config: Any) -> bool:
    return config.model_type in {"roberta", "xlm-roberta", "camembert", "xlm-roberta-xl", "data2vec-text"}
