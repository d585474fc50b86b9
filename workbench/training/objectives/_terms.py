"""The parts of an objective, as they stand at each place of a batch: what training sums up, and results name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from workbench.training.objectives._draw import IGNORED

__all__ = ["Term", "pair_term", "terms_of", "token_term"]


@dataclass(frozen=True)
class Term:
    """One part: its losses (B, T) in nats, at which of these places it is scored, and where it was right.

    ``weight`` is what the mean over scored places counts for in the objective's loss. ``name`` is empty for an
    objective of one part. ``is_tokens``: it predicts tokens, so that its loss has a perplexity.
    """

    name: str
    weight: float
    losses: Tensor
    scored: Tensor
    right: Tensor | None = None
    is_tokens: bool = False

    @property
    def mean(self) -> Tensor:
        """The mean loss over scored places."""
        return self.losses[self.scored].mean()


def token_term(
    logits: Tensor, labels: Tensor, *, name: str = "", weight: float = 1.0, shifted: bool = False
) -> Term:
    """Cross-entropy of tokens: logits (B, T, V), labels (B, T); ``shifted`` where a place predicts the next one."""
    if shifted:
        logits, labels = logits[:, :-1], labels[:, 1:]
    losses = F.cross_entropy(logits.float().transpose(1, 2), labels, ignore_index=IGNORED, reduction="none")
    return Term(name, weight, losses, labels != IGNORED, logits.argmax(-1) == labels, is_tokens=True)


def pair_term(logits: Tensor, labels: Tensor) -> Term:
    """Cross-entropy of the label of a pair of texts: logits (B, 2), labels (B,)."""
    losses = F.cross_entropy(logits.float(), labels, reduction="none")[:, None]
    right = (logits.argmax(-1) == labels)[:, None]
    return Term("pair", 1.0, losses, torch.ones_like(right), right)


def terms_of(model: Any, batch: dict[str, Tensor], auto: str) -> list[Term]:
    """The parts of what ``model`` is trained to by an objective of Auto class ``auto``, on one of its batches."""
    if hasattr(model, "terms"):
        found: list[Term] = model.terms(**batch)
        return found
    output, labels = model(**batch), batch["labels"]
    if "next_sentence_label" in batch:
        pair = pair_term(output.seq_relationship_logits, batch["next_sentence_label"])
        return [token_term(output.prediction_logits, labels, name="masked"), pair]
    return [token_term(output.logits, labels, shifted=auto == "AutoModelForCausalLM")]
