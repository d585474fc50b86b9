"""What a task may ask of a model beside :class:`workbench.scoring.Request`, and what it gets back."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from workbench.models.problem import ProblemType, log_probabilities
from workbench.scoring import Blank, Generated, GenerationRequest, Request, RollingScore, Score

__all__ = [
    "Answer",
    "AnyRequest",
    "Blank",
    "ChoiceRequest",
    "ClassificationRequest",
    "Generated",
    "GenerationRequest",
    "HeadScores",
    "PairFeatures",
    "Request",
    "RollingRequest",
    "RollingScore",
    "Score",
    "Span",
    "SpanPairRequest",
    "SpanRequest",
    "TaggingRequest",
    "Tags",
    "as_replies",
]


@dataclass(frozen=True)
class RollingRequest:
    """How likely is this whole text? Read in windows of the model's length, ``stride`` tokens scored in each."""

    text: str
    stride: int | None = None


@dataclass(frozen=True)
class ClassificationRequest:
    """A label or a number for a text or a pair of texts, from a classification head.

    A head trained for another ``problem`` is refused; ``None`` takes any. A text that is too long for the model is cut
    at its end or, with ``keep_end``, at its beginning.
    """

    text: str
    pair: str | None = None
    problem: ProblemType | None = None
    keep_end: bool = False


@dataclass(frozen=True)
class TaggingRequest:
    """A label for each word, from a token-classification head."""

    words: tuple[str, ...]


@dataclass(frozen=True)
class SpanRequest:
    """Where in ``context`` the answer to ``question`` stands, from a question-answering head; it ``may_be_absent``."""

    question: str
    context: str
    may_be_absent: bool = False


@dataclass(frozen=True)
class ChoiceRequest:
    """Which ending fits ``text``, from a multiple-choice head."""

    text: str
    choices: tuple[str, ...]


@dataclass(frozen=True)
class SpanPairRequest:
    """The states of two spans, given by their characters, each in a text of its own."""

    first: str
    second: str
    first_span: tuple[int, int]
    second_span: tuple[int, int]


@dataclass(frozen=True)
class HeadScores:
    """A head's logits, one a label or a choice; ``labels`` are the model's names of them."""

    values: tuple[float, ...]
    labels: tuple[str, ...]
    problem: ProblemType = ProblemType.ONE_LABEL

    @property
    def probabilities(self) -> tuple[float, ...]:
        """Of each label, as ``problem`` means them; raises :class:`~workbench.errors.TaskError` for a number."""
        logits = torch.tensor(self.values, dtype=torch.float64)
        return tuple(log_probabilities(logits, self.problem).exp().tolist())


@dataclass(frozen=True)
class Tags:
    """The head's label of each word."""

    labels: tuple[str, ...]


@dataclass(frozen=True)
class Span:
    """The text of the best span, and how likely it is that there is none (0 where there always is one)."""

    text: str
    no_answer_probability: float = 0.0


@dataclass(frozen=True)
class PairFeatures:
    """Mean states of two spans, joined with their absolute difference and product (Conneau et al. 2017)."""

    values: tuple[float, ...]


AnyRequest = (
    Request
    | Blank
    | RollingRequest
    | GenerationRequest
    | ClassificationRequest
    | TaggingRequest
    | SpanRequest
    | ChoiceRequest
    | SpanPairRequest
)
Answer = Score | RollingScore | Generated | HeadScores | Tags | Span | PairFeatures


def as_replies(requests: tuple[AnyRequest, ...]) -> tuple[AnyRequest, ...]:
    """The requests of an item for a model in chat format: choices begin the reply, without the blank before them.

    A single continuation keeps it, as in lm-eval, whose delimiter stands before choices alone.
    """
    if len(requests) < 2:
        return requests
    return tuple(
        replace(request, continuation=request.continuation.removeprefix(" "))
        if isinstance(request, Request)
        else request
        for request in requests
    )
