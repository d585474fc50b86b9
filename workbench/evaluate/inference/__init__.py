"""From requests to answers: the type of a request and the kind of the model decide which engine computes it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence, Set
from typing import Any

from workbench.evaluate._requests import (
    Answer,
    AnyRequest,
    Blank,
    ChoiceRequest,
    ClassificationRequest,
    Generated,
    GenerationRequest,
    Request,
    RollingRequest,
    SpanPairRequest,
    SpanRequest,
    TaggingRequest,
)
from workbench.evaluate.inference.heads import (
    classify_texts,
    find_spans,
    pair_features,
    score_choices,
    tag_words,
)
from workbench.evaluate.inference.likelihood import score_blanks, score_continuations, score_passages
from workbench.evaluate.inference.options import InferenceOptions, counted_tokens
from workbench.models import LoadedModel
from workbench.scoring import generate_texts

__all__ = ["InferenceOptions", "counted_tokens", "stream_answers"]


def _write_texts(
    model: LoadedModel, prompts: list[GenerationRequest], done: Set[int], options: InferenceOptions
) -> Iterator[list[tuple[int, Generated]]]:
    return generate_texts(
        model,
        prompts,
        done,
        seed=options.seed,
        batch_tokens=options.batch_tokens,
        keep_bos=options.keep_bos,
        progress=options.progress,
    )


_Compute = Callable[[LoadedModel, list[Any], Set[int], InferenceOptions], Iterator[list[tuple[int, Any]]]]
_COMPUTE: dict[type, _Compute] = {
    Request: score_continuations,
    Blank: score_blanks,
    RollingRequest: score_passages,
    GenerationRequest: _write_texts,
    ClassificationRequest: classify_texts,
    TaggingRequest: tag_words,
    SpanRequest: find_spans,
    ChoiceRequest: score_choices,
    SpanPairRequest: pair_features,
}


def stream_answers(
    model: LoadedModel,
    requests: Sequence[AnyRequest],
    options: InferenceOptions,
    done: Set[int] = frozenset(),
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
        for batch in _COMPUTE[kind](model, [requests[p] for p in places], local_done, options):
            yield [(places[i], answer) for i, answer in batch]
