"""SpanBERT: hidden spans are predicted from their own states and, a second time, from their boundaries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F

from workbench.models.heads.base import step_share
from workbench.models.heads.span_boundary import SpanBoundaryHead, span_boundaries
from workbench.training.objectives._draw import IGNORED, Term, token_places, token_term, weighted_loss

__all__ = ["SpanBoundaries"]

FOLDER = "span_boundary"  # inside a run's folder


class SpanBoundaries(nn.Module):
    """A masked language model with SpanBERT's head for boundaries, as one model to train.

    Joshi et al. 2020, "SpanBERT", section 3.2, equation 4: ``L(x_i) = L_MLM(x_i) + L_SBO(x_i)``, here a mean over the
    hidden tokens each. What is saved is the masked language model, and the head in a folder inside, from which
    training goes on; the head scores no text, since it needs to know where the hidden span is.
    """

    def __init__(self, masked: Any, *, seed: int = 0, folder: str | Path | None = None) -> None:
        super().__init__()
        self.masked, self.config = masked, masked.config
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.head = SpanBoundaryHead(masked.config, masked.get_output_embeddings().weight.shape[1])
        stored = Path(folder or "") / FOLDER / "model.safetensors"
        if folder is not None and stored.is_file():
            self.head.load_state_dict(load_file(stored))

    @property
    def device(self) -> torch.device:
        """Where it is."""
        return next(self.parameters()).device

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | None = None,
    ) -> Any:
        """The masked model's output; with ``labels`` (B, T), -100 where nothing is hidden, its loss is of both parts.

        ``num_items_in_batch`` are the places of all batches of a step, as :meth:`scored_counts` gives them.
        """
        if labels is None:
            return self.masked(input_ids=input_ids, attention_mask=attention_mask)
        output, terms = self._output_and_terms(input_ids, labels, attention_mask)
        loss, auxiliary = weighted_loss(terms, num_items_in_batch), getattr(output, "auxiliary_loss", None)
        if auxiliary is not None:
            masked = None if num_items_in_batch is None else num_items_in_batch.reshape(-1, len(terms))[0, 0]
            loss = loss + auxiliary * step_share(labels, masked)
        output.loss = loss
        return output

    def scored_counts(
        self, input_ids: Tensor, labels: Tensor, attention_mask: Tensor | None = None
    ) -> Tensor:
        """Scored places of each term of a batch, (term,): hidden tokens, and those between two boundaries."""
        scored = span_boundaries(labels != IGNORED, token_places(input_ids, attention_mask))[3]
        return torch.stack([(labels != IGNORED).sum(), scored.sum()])

    def terms(self, input_ids: Tensor, labels: Tensor, attention_mask: Tensor | None = None) -> list[Term]:
        """What the masked model makes of hidden places, and what the boundaries do."""
        return self._output_and_terms(input_ids, labels, attention_mask)[1]

    def _output_and_terms(
        self, input_ids: Tensor, labels: Tensor, attention_mask: Tensor | None
    ) -> tuple[Any, list[Term]]:
        output = self.masked(
            input_ids=input_ids, attention_mask=attention_mask, output_hidden_states=True, return_dict=True
        )
        states = output.hidden_states[-1]
        output.hidden_states = None  # the loop has no use for them
        masked = token_term(output.logits, labels, name="masked")
        return output, [masked, self._boundary_term(states, labels, token_places(input_ids, attention_mask))]

    def _boundary_term(self, states: Tensor, labels: Tensor, tokens: Tensor) -> Term:
        left, right, place, scored = span_boundaries(labels != IGNORED, tokens)
        row = torch.arange(len(labels), device=labels.device)[:, None].expand_as(labels)[scored]
        table = self.masked.get_output_embeddings().weight
        logits = self.head(states[row, left[scored]], states[row, right[scored]], place[scored], table)
        targets = labels[scored]
        losses = torch.zeros(labels.shape, device=labels.device)
        losses[scored] = F.cross_entropy(logits.float(), targets, reduction="none")
        is_right = torch.zeros_like(scored)
        is_right[scored] = logits.argmax(-1) == targets
        return Term("boundary", 1.0, losses, scored, is_right, is_tokens=True)

    def save_pretrained(self, folder: str | Path) -> None:
        """The masked language model, and the head in a folder inside."""
        self.masked.save_pretrained(folder)
        inside = Path(folder) / FOLDER
        inside.mkdir(parents=True, exist_ok=True)
        save_file(self.head.state_dict(), inside / "model.safetensors")
