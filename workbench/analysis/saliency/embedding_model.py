"""The one place where methods meet models: questions as a padded batch, scored from input embeddings.

Axes: B question, N row to score, T token, D model width, R row that the model reads.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from workbench.analysis.saliency._diagnose import no_gradient, not_finite
from workbench.analysis.saliency.attribution_target import AttributionTarget, Output, TargetEntry, TargetInput
from workbench.errors import ModelError, TraceError
from workbench.models import Kind, LoadedModel
from workbench.models.batching import Padding, groups_of, padding_of
from workbench.models.problem import ProblemType, log_probabilities, problem_of
from workbench.trace import Stack, structure_of
from workbench.trace.encoding import inputs_of
from workbench.trace.padding import padding_matters
from workbench.trace.structure import evaluating, without_cache

__all__ = ["EmbeddingModel", "differentiable"]


@contextmanager
def differentiable(model: LoadedModel) -> Iterator[None]:
    """Dropout off, weights frozen so that no memory is kept for their gradients; the model's lock is held."""
    before = {name: weight.requires_grad for name, weight in model.model.named_parameters()}
    with model.lock, evaluating(model.model):
        try:
            for weight in model.model.parameters():
                weight.requires_grad_(False)
            yield
        finally:  # by name: those of an offloaded model are others after a pass
            for name, weight in model.model.named_parameters():
                weight.requires_grad_(before[name])


class EmbeddingModel:
    """A batch of questions to one model.

    Attributes:
        embeddings: (B, T, D) of the texts' tokens, as the model's embedding gives them.
        baseline: (B, T, D); equal to ``embeddings`` where a token is not attributed.
        attributed: (B, T), which tokens get scores.
        lengths: tokens of each text.
    """

    def __init__(self, model: LoadedModel, questions: Sequence[AttributionTarget], baseline: Tensor) -> None:
        """``baseline``: one vector (D,), or vectors (T, D) or (B, T, D) for each token."""
        self.model = model
        self.questions = tuple(questions)
        self.lengths = [question.tokens for question in self.questions]
        inputs = inputs_of(model, [question.encoded for question in self.questions])
        self._segments: Tensor | None = inputs.get("token_type_ids")
        self._embed = model.model.get_input_embeddings()
        with torch.no_grad():
            self.embeddings: Tensor = self._embed(inputs["input_ids"]).detach()
        width = self.embeddings.shape[1]
        self.attributed = torch.tensor(
            [[*q.attributed, *[False] * (width - q.tokens)] for q in self.questions], device=model.device
        )
        self.baseline = torch.where(
            self.attributed[..., None], baseline.to(self.embeddings), self.embeddings
        ).detach()
        self._problem = problem_of(model.model)
        self._keeps_logits = "logits_to_keep" in inspect.signature(model.model.forward).parameters
        # measured before a method puts its own hooks into the model, which would change these passes too
        self._padding = self._measured_padding()

    def __len__(self) -> int:
        return len(self.questions)

    def asking(self, questions: Sequence[AttributionTarget], rows: slice = slice(None)) -> EmbeddingModel:
        """The same texts (those of ``rows``) with other targets; embeddings stay as they are here."""
        other = copy(self)
        other.questions = tuple(questions)
        other.lengths = [question.tokens for question in questions]
        width = max(other.lengths)
        other.embeddings, other.baseline = self.embeddings[rows, :width], self.baseline[rows, :width]
        other.attributed = self.attributed[rows, :width]
        other._segments = None if self._segments is None else self._segments[rows, :width]
        return other

    def moved(self, embeddings: Tensor) -> EmbeddingModel:
        """The same questions about texts with these embeddings (B, T, D)."""
        other = copy(self)
        other.embeddings = embeddings.detach()
        other.baseline = torch.where(self.attributed[..., None], self.baseline, other.embeddings)
        return other

    def score(self, embeddings: Tensor, rows: Tensor) -> Tensor:
        """The target's value for each row of ``embeddings`` (N, T, D): (N,) in float32 or finer.

        ``rows`` (N,) says which question each row is of. Tokens beyond a question's own are not looked at.
        """
        numbers = rows.tolist()
        groups = self._groups(numbers)
        if len(groups) > 1:
            parts = [self.score(embeddings[group], rows[group]) for group in groups]
            return torch.cat(parts)[np.argsort(np.concatenate(groups)).tolist()]
        plan = [
            (row, n, read) for row, n in enumerate(numbers) for read in range(len(self.questions[n].reads))
        ]
        terms = self._terms(plan)
        kept = self._kept(terms, plan)
        output = self._run(embeddings, plan, kept)
        return _total(output, terms, kept, len(numbers), self.questions[0].output, self._problem)

    def _measured_padding(self) -> Padding:
        """How texts of several lengths may share a pass; their embeddings are padded on the right.

        A head that takes the last token cannot tell from embeddings which one that is.
        """
        if self.model.kind is not Kind.CLASSIFIER:
            return Padding.EQUAL if padding_matters(self.model.model) else Padding.RIGHT
        padding = padding_of(self.model)
        is_right = padding is Padding.RIGHT and not _looks_back_only(self.model)
        return padding if is_right or padding is Padding.SINGLE else Padding.EQUAL

    def _groups(self, numbers: Sequence[int]) -> list[list[int]]:
        """Places in ``numbers`` that one forward pass may hold."""
        return groups_of(
            self.model, [self.questions[n].encoded.alignment.ids for n in numbers], self._padding
        )

    def values(self, embeddings: Tensor, rows: Tensor) -> Tensor:
        """:meth:`score` without gradients."""
        with torch.no_grad():
            return self.score(embeddings, rows)

    def gradients(self, embeddings: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Values (N,) and their gradients with respect to ``embeddings`` (N, T, D), both detached.

        Raises :class:`ModelError` if the model keeps no gradients and :class:`NumericsError` if one is NaN or
        infinite; both name the layer where that begins.
        """
        inputs = embeddings.detach().requires_grad_()
        with torch.enable_grad():
            values = self.score(inputs, rows)
            if not values.requires_grad:
                raise no_gradient(self, inputs, rows)
            (gradients,) = torch.autograd.grad(values.sum(), inputs)
        if not bool(torch.isfinite(gradients).all()):
            raise not_finite(self, embeddings, rows)
        return values.detach(), gradients

    def chunks(self, rows: Sequence[int], tokens: int) -> Iterator[list[int]]:
        """Positions in ``rows`` (question numbers) in groups that make forward passes of about ``tokens`` tokens.

        Neighbours stay together, and questions come in order of length, so little is padded: a group that is
        half full ends where shorter ones begin.
        """
        group: list[int] = []
        width = 0
        for position, row in enumerate(rows):
            own = max(self.lengths[row] + len(read.suffix) for read in self.questions[row].reads)
            wider = max(width, own)
            room = tokens if own >= width else tokens // 2
            if group and wider * (len(group) + 1) > room:
                yield group
                group, wider = [], own
            group.append(position)
            width = wider
        if group:
            yield group

    def _terms(self, plan: Sequence[tuple[int, int, int]]) -> list[_Placed]:
        """The terms of every part, each with the row of the model's output where it stands."""
        place = {(row, read): i for i, (row, _, read) in enumerate(plan)}
        return [
            _Placed(place[row, part.read], row, term, (row, number), part.weight, self.lengths[n])
            for row, n in dict.fromkeys((row, n) for row, n, _ in plan)
            for number, part in enumerate(self.questions[n].parts)
            for term in part.terms
        ]

    def _kept(self, terms: Sequence[_Placed], plan: Sequence[tuple[int, int, int]]) -> list[int] | None:
        """Positions at which alone the head has to run, where a model takes that."""
        positions = sorted({t.term.position for t in terms if t.term.position is not None})
        if self.model.kind is not Kind.CAUSAL or not self._keeps_logits or len(positions) > 8:
            return None
        return positions

    def _run(
        self,
        embeddings: Tensor,
        plan: Sequence[tuple[int, int, int]],
        kept: Sequence[int] | None,
    ) -> Any:
        """The model's output for each (row, question, read) of ``plan``."""
        reads = [self.questions[n].reads[read] for _, n, read in plan]
        sizes = [self.lengths[n] + len(read.suffix) for (_, n, _), read in zip(plan, reads, strict=True)]
        width = max(sizes)
        inputs = {
            "inputs_embeds": self._joined(embeddings, plan, reads, width),
            "attention_mask": _mask(sizes, width, embeddings.device),
        }
        if self._segments is not None:
            segments = self._segments[[n for _, n, _ in plan], :width]
            inputs["token_type_ids"] = nn.functional.pad(segments, (0, width - segments.shape[1]))
        inputs |= self._decoder_inputs(reads)
        if kept is not None:
            inputs["logits_to_keep"] = torch.tensor(kept, device=embeddings.device)
        try:
            return self.model.model(**inputs, **without_cache(self.model.model))
        except (NotImplementedError, TypeError) as error:
            raise ModelError(
                f"{type(self.model.model).__name__} does not run from input embeddings ({error}); "
                "use method='attention' or another model"
            ) from error

    def _joined(
        self,
        embeddings: Tensor,
        plan: Sequence[tuple[int, int, int]],
        reads: Sequence[TargetInput],
        width: int,
    ) -> Tensor:
        """Embeddings with what is read after each text put behind it: (R, T, D)."""
        if not any(read.suffix for read in reads):
            rows = [row for row, _, _ in plan]
            picked = embeddings if rows == list(range(len(embeddings))) else embeddings[rows]
            return picked[:, :width]
        joined = []
        for (row, n, _), read in zip(plan, reads, strict=True):
            with torch.no_grad():
                ids = torch.tensor(read.suffix, dtype=torch.long, device=embeddings.device)
                suffix = self._embed(ids[None])[0].to(embeddings)
            text = torch.cat([embeddings[row, : self.lengths[n]], suffix])
            joined.append(nn.functional.pad(text, (0, 0, 0, width - len(text))))
        return torch.stack(joined)

    def _decoder_inputs(self, reads: Sequence[TargetInput]) -> dict[str, Tensor]:
        if all(read.decoder is None for read in reads):
            return {}
        ids = [read.decoder or (0,) for read in reads]
        width = max(map(len, ids))
        device = self.embeddings.device
        return {
            "decoder_input_ids": torch.tensor(
                [[*row, *[0] * (width - len(row))] for row in ids], device=device
            ),
            "decoder_attention_mask": _mask([len(row) for row in ids], width, device),
        }


@dataclass(frozen=True)
class _Placed:
    """A term with its row in the model's output, the row that it is scored for, and its part."""

    output_row: int
    row: int
    term: TargetEntry
    part: tuple[int, int]
    weight: float
    length: int


def _total(
    output: Any,
    terms: Sequence[_Placed],
    kept: Sequence[int] | None,
    rows: int,
    form: Output,
    problem: ProblemType,
) -> Tensor:
    """Sum of each part's terms, in the form asked for, times its weight, for each row: (N,)."""
    parts = list(dict.fromkeys(term.part for term in terms))
    number = {part: i for i, part in enumerate(parts)}
    weight = {term.part: term.weight for term in terms}
    sums: Tensor | None = None
    for field in dict.fromkeys(placed.term.field for placed in terms):
        chosen = [placed for placed in terms if placed.term.field == field]
        values = _entries(getattr(output, field), chosen, kept, form, problem)
        sums = values.new_zeros(len(parts)) if sums is None else sums
        sums = sums.index_add(0, _indices([number[p.part] for p in chosen], values), values)
    assert sums is not None
    if form is Output.PROBABILITY:
        sums = sums.exp()
    weighted = sums * torch.tensor([weight[part] for part in parts], dtype=sums.dtype, device=sums.device)
    return sums.new_zeros(rows).index_add(0, _indices([row for row, _ in parts], sums), weighted)


def _entries(
    logits: Tensor,
    terms: Sequence[_Placed],
    kept: Sequence[int] | None,
    form: Output,
    problem: ProblemType,
) -> Tensor:
    """The entry of ``logits`` that each term names: (M,)."""
    rows = _indices([t.output_row for t in terms], logits)
    if terms[0].term.position is None:
        lines = logits[rows]
        if terms[0].term.field != "logits":  # over positions: padding is none of them
            lengths = _indices([t.length for t in terms], logits)[:, None]
            lines = lines.masked_fill(
                torch.arange(lines.shape[1], device=lines.device) >= lengths, -torch.inf
            )
    else:
        place = {position: i for i, position in enumerate(kept or ())}
        positions = [int(t.term.position or 0) for t in terms]
        lines = logits[rows, _indices([place.get(p, p) for p in positions], logits)]
    lines = lines if lines.dtype == torch.float64 else lines.float()
    if form is not Output.LOGIT:
        lines = log_probabilities(lines, problem)
    return lines[
        torch.arange(len(terms), device=lines.device), _indices([t.term.index for t in terms], lines)
    ]


def _indices(numbers: Sequence[int], like: Tensor) -> Tensor:
    return torch.tensor(numbers, dtype=torch.long, device=like.device)


def _mask(sizes: Sequence[int], width: int, device: torch.device) -> Tensor:
    return (torch.arange(width, device=device) < torch.tensor(sizes, device=device)[:, None]).long()


def _looks_back_only(model: LoadedModel) -> bool:
    """Whether the model is a decoder by its attention; one without attention is not."""
    try:
        return structure_of(model.model).main is Stack.DECODER
    except TraceError:
        return False
