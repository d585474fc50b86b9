"""From requests to answers: what is asked decides how, and the model's kind decides with which engine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence, Set
from typing import Any

from workbench.evaluate._requests import (
    Answer,
    Ask,
    Blank,
    ChoiceRequest,
    ClassificationRequest,
    GenerationRequest,
    Request,
    RollingRequest,
    SpanPairRequest,
    SpanRequest,
    TaggingRequest,
)
from workbench.evaluate.asking._count import counted_tokens
from workbench.evaluate.asking._how import How
from workbench.evaluate.asking.generation import ask_prompts
from workbench.evaluate.asking.heads import ask_choices, ask_spans, ask_texts, ask_words
from workbench.evaluate.asking.likelihood import ask_blanks, ask_likelihood
from workbench.evaluate.asking.rolling import ask_passages
from workbench.evaluate.asking.states import ask_word_pairs
from workbench.models import LoadedModel

__all__ = ["How", "counted_tokens", "stream_answers"]

Asker = Callable[[LoadedModel, list[Any], Set[int], How], Iterator[list[tuple[int, Any]]]]
_ASKERS: dict[type, Asker] = {
    Request: ask_likelihood,
    Blank: ask_blanks,
    RollingRequest: ask_passages,
    GenerationRequest: ask_prompts,
    ClassificationRequest: ask_texts,
    TaggingRequest: ask_words,
    SpanRequest: ask_spans,
    ChoiceRequest: ask_choices,
    SpanPairRequest: ask_word_pairs,
}


def stream_answers(
    model: LoadedModel, requests: Sequence[Ask], how: How, done: Set[int] = frozenset()
) -> Iterator[list[tuple[int, Answer]]]:
    """Yield ``(position in requests, answer)`` for each finished batch.

    Batches are planned over all requests, also those in ``done``, so that what is computed does not depend on
    what was done before; a batch that is all done is left out.
    """
    by_type: dict[type, list[int]] = defaultdict(list)
    for place, request in enumerate(requests):
        by_type[type(request)].append(place)
    for kind, places in by_type.items():
        local_done = {i for i, place in enumerate(places) if place in done}
        if len(local_done) == len(places):
            continue
        for batch in _ASKERS[kind](model, [requests[p] for p in places], local_done, how):
            yield [(places[i], answer) for i, answer in batch]
