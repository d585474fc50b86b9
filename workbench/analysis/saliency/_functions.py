"""Saliency of functions: their words are taken out of the text, as far as a method needs no more than answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from workbench.analysis.saliency._methods import METHODS, SaliencyMethod
from workbench.analysis.saliency.attribution_target import (
    AttributionTarget,
    Output,
    TargetEntry,
    TargetInput,
    TargetSum,
)
from workbench.analysis.saliency.targets import TargetRequest, class_number, named
from workbench.characters import check_text
from workbench.errors import TaskError
from workbench.models import TextFunction
from workbench.models.functions import finite_logs
from workbench.text import Alignment, split_words
from workbench.trace import Text
from workbench.trace.encoding import Encoded

__all__ = ["BASELINE", "WordsOfFunction", "ask_function", "method_of_functions"]

BASELINE = "left out"
_TEXTS_AT_ONCE = 256


class WordsOfFunction:
    """What methods that see answers alone use of an :class:`EmbeddingModel`, for a function.

    A word's embedding is one number: 1 where it stands in the text, 0 where it is left out, which is the baseline.
    """

    def __init__(self, function: TextFunction, questions: Sequence[AttributionTarget]) -> None:
        self.model = function
        self.questions = tuple(questions)
        self.lengths = [question.tokens for question in self.questions]
        width = max(self.lengths)
        self.attributed = torch.tensor(
            [[*q.attributed, *[False] * (width - q.tokens)] for q in self.questions]
        )
        self.embeddings = torch.ones(*self.attributed.shape, 1, dtype=torch.float64)  # (B, T, 1)
        self.baseline = self.embeddings * ~self.attributed[..., None]

    def __len__(self) -> int:
        return len(self.questions)

    def chunks(self, rows: Sequence[int], tokens: int) -> Iterator[list[int]]:
        """Positions in ``rows``, as many as the function is given at once."""
        for start in range(0, len(rows), _TEXTS_AT_ONCE):
            yield list(range(start, min(start + _TEXTS_AT_ONCE, len(rows))))

    def values(self, embeddings: Tensor, rows: Tensor) -> Tensor:
        """The target's value (N,) of texts without the words that are 0 in ``embeddings`` (N, T, 1)."""
        asked = [self.questions[row] for row in rows.tolist()]
        kept = (embeddings[..., 0] != 0).tolist()
        texts = [_without(q.encoded.alignment, words) for q, words in zip(asked, kept, strict=True)]
        probabilities = self.model.probabilities(texts)
        logs = finite_logs(probabilities)
        values = [
            sum(
                part.weight
                * float((logs if q.output is Output.LOG_PROBABILITY else probabilities)[i, term.index])
                for part in q.parts
                for term in part.terms
            )
            for i, q in enumerate(asked)
        ]
        return torch.tensor(values, dtype=torch.float64)


def _without(alignment: Alignment, kept: Sequence[bool]) -> str:
    """The text without the words that are not ``kept``, each with the white space behind it."""
    starts = [start for start, _ in alignment.words]
    ends = [*starts[1:], len(alignment.text)]
    parts = [alignment.text[a:b] for a, b, keep in zip(starts, ends, kept, strict=False) if keep]
    text = alignment.text[: starts[0]] + "".join(parts)
    return text if kept[len(starts) - 1] else text.rstrip()


def method_of_functions(name: str, function: TextFunction) -> SaliencyMethod:
    """The method called ``name``; raises :class:`TaskError` for one that needs more than a function's answers."""
    method = METHODS.get(name)
    if not (method.answers_only or method.blind):
        able = ", ".join(m for m in METHODS if METHODS.get(m).answers_only)
        raise TaskError(
            f"{name} needs a model's internals; {function.name} is a function: methods for functions: {able}"
        )
    return method


def ask_function(function: TextFunction, text: Text, asked: TargetRequest) -> AttributionTarget:
    """The question that ``asked`` means: a label's probability or its logarithm, the likeliest by default.

    Raises :class:`TaskError` for a label that the function lacks, for a pair, and for what functions do not have.
    """
    if not isinstance(text, str):
        raise TaskError(f"a function is attributed on one text; got {type(text).__name__}: {text!r:.60}")
    if asked.position is not None or asked.output is Output.LOGIT:
        given = "position" if asked.position is not None else "output logit"
        raise TaskError(
            f"{given} is nothing that {function.name}, a function, has; leave it out (output: probability or "
            "log_probability)"
        )
    if asked.target is None and asked.contrast is not None:
        raise TaskError(f"contrast {asked.contrast!r} needs a target: what rather than {asked.contrast!r}?")
    words = split_words(check_text(text))
    if not words:
        raise TaskError(f"text {text!r:.40} has no word to attribute")
    numbers = {label: number for number, label in enumerate(function.labels)}
    names = [name for name in (asked.target, asked.contrast) if name is not None]
    chosen = [class_number(name, numbers, len(numbers), function.name) for name in names]
    chosen = chosen or [int(function.probabilities([text])[0].argmax())]
    form = asked.output or Output.PROBABILITY
    whole = Alignment(
        text=text,
        tokens=tuple(text[start:end] for start, end in words),
        ids=tuple(range(len(words))),
        offsets=words,
        words=words,
        word_ids=tuple(range(len(words))),
    )
    return AttributionTarget(
        encoded=Encoded(whole, (0,) * len(words)),
        reads=(TargetInput(),),
        parts=tuple(
            TargetSum((TargetEntry(n),), 0, sign) for n, sign in zip(chosen, (1.0, -1.0), strict=False)
        ),
        attributed=(True,) * len(words),
        output=form,
        label=named([function.labels[n] for n in chosen], form),
        note="the likeliest class" if asked.target is None else "",
    )
