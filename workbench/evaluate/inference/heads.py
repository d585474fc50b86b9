"""Outputs of classification heads for texts, words, spans and choices, and states of words for heads of ours."""

from __future__ import annotations

from collections.abc import Iterator, Set

import torch
from scipy.special import expit
from torch import Tensor

from workbench.errors import NumericsError, TaskError
from workbench.evaluate._requests import (
    ChoiceRequest,
    ClassificationRequest,
    HeadScores,
    PairFeatures,
    Span,
    SpanPairRequest,
    SpanRequest,
    TaggingRequest,
    Tags,
)
from workbench.evaluate.inference.options import InferenceOptions
from workbench.models import Kind, LoadedModel, TextFunction
from workbench.models.batching import HeadOutput, encode_row, encode_row_end, head_outputs, row_of
from workbench.models.functions import finite_logs
from workbench.models.problem import ProblemType, problem_of
from workbench.scoring.streams import stream_heads
from workbench.text import align_words, require_fast
from workbench.trace.encoding import encode_all, inputs_of

__all__ = ["classify_texts", "find_spans", "pair_features", "score_choices", "tag_words"]

_LONGEST_ANSWER = 30  # tokens of a span
_PROBLEMS = {
    ProblemType.ONE_LABEL: "one label of several",
    ProblemType.LABEL_SET: "several labels at once",
    ProblemType.NUMBER: "a number",
}
_TEXTS_AT_ONCE = 256  # given to a function
_OVERLAP = 128  # tokens that two windows of a long context share


def classify_texts(
    model: LoadedModel | TextFunction,
    requests: list[ClassificationRequest],
    done: Set[int],
    options: InferenceOptions,
) -> Iterator[list[tuple[int, HeadScores]]]:
    """The scores of all labels, or one number for a regression head; a function's logarithms of probabilities."""
    if isinstance(model, TextFunction):
        yield from _by_function(model, requests, done)
        return
    _require_head(model, "ForSequenceClassification")
    for request in requests:
        _require_problem(model, request)
    rows = [
        encode_row_end(model, request.text)
        if request.keep_end
        else encode_row(model, request.text, request.pair)
        for request in requests
    ]
    for batch in stream_heads(
        model, rows, done=done, batch_tokens=options.batch_tokens, progress=options.progress
    ):
        yield [(place, _label_scores(model, output["logits"])) for place, output in batch]


def _by_function(
    function: TextFunction, requests: list[ClassificationRequest], done: Set[int]
) -> Iterator[list[tuple[int, HeadScores]]]:
    """Log-probabilities as scores."""
    todo = [place for place in range(len(requests)) if place not in done]
    for start in range(0, len(todo), _TEXTS_AT_ONCE):
        places = todo[start : start + _TEXTS_AT_ONCE]
        chosen = [requests[place] for place in places]
        rows = function.probabilities([r.text if r.pair is None else (r.text, r.pair) for r in chosen])
        scores = finite_logs(rows).tolist()
        yield [(p, HeadScores(tuple(row), function.labels)) for p, row in zip(places, scores, strict=True)]


def score_choices(
    model: LoadedModel, requests: list[ChoiceRequest], done: Set[int], options: InferenceOptions
) -> Iterator[list[tuple[int, HeadScores]]]:
    """One score a choice."""
    _require_head(model, "ForMultipleChoice")
    for place, request in enumerate(requests):
        if place in done:
            continue
        outputs = head_outputs(model, [encode_row(model, request.text, choice) for choice in request.choices])
        logits = torch.cat([output["logits"] for output in outputs])
        yield [(place, HeadScores(_finite(model, logits), tuple(map(str, range(len(logits))))))]


def tag_words(
    model: LoadedModel, requests: list[TaggingRequest], done: Set[int], options: InferenceOptions
) -> Iterator[list[tuple[int, Tags]]]:
    """The label of each word's first piece; words that the model cannot read any more get ``O``."""
    _require_head(model, "ForTokenClassification")
    if not requests:
        return
    encoded = encode_all(model, [align_words(request.words, model.tokenizer) for request in requests])
    names = model.config.id2label

    def read(place: int, output: HeadOutput) -> Tags:
        best = output["logits"].argmax(-1).tolist()
        spans = encoded[place].alignment.token_spans
        return Tags(tuple(str(names[best[first]]) if first < last else "O" for first, last in spans))

    for batch in stream_heads(
        model,
        [one.row for one in encoded],
        done=done,
        batch_tokens=options.batch_tokens,
        progress=options.progress,
    ):
        yield [(place, read(place, output)) for place, output in batch]


def find_spans(
    model: LoadedModel, requests: list[SpanRequest], done: Set[int], options: InferenceOptions
) -> Iterator[list[tuple[int, Span]]]:
    """The best span of up to 30 tokens (Devlin et al. 2019, section 4.2).

    Long contexts are read in overlapping windows, as BERT's released code does; that code counts a token in the window
    with most around it, here every window counts.
    """
    _require_head(model, "ForQuestionAnswering")
    require_fast(model.tokenizer, verb="answering questions from a text")
    for place, request in enumerate(requests):
        if place not in done:
            yield [(place, _best_span(model, request))]


def _best_span(model: LoadedModel, request: SpanRequest) -> Span:
    """The best span of all windows; against it stands the least score of any window's first token.

    Devlin et al. 2019, section 4.3: the first token's start and end say that there is no answer.
    """
    encoded = model.tokenizer(
        request.question,
        request.context,
        truncation="only_second",
        max_length=model.max_length,
        stride=min(_OVERLAP, model.max_length // 4),
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        verbose=False,
    )
    best, text, absent = float("-inf"), "", float("inf")
    for window, ids in enumerate(encoded["input_ids"]):
        row = row_of({name: encoded[name][window] for name in encoded})
        (output,) = head_outputs(model, [row])
        start, end = output["start_logits"], output["end_logits"]
        inside = torch.tensor([part == 1 for part in encoded.sequence_ids(window)], device=start.device)
        near = torch.ones(len(ids), len(ids), device=start.device).triu().tril(_LONGEST_ANSWER - 1).bool()
        scores = (start[:, None] + end[None, :]).masked_fill(
            ~(near & inside[:, None] & inside[None, :]), float("-inf")
        )
        value = float(scores.max())
        if value > best:
            first, last = divmod(int(scores.argmax()), len(ids))
            offsets = encoded["offset_mapping"][window]
            best, text = value, request.context[offsets[first][0] : offsets[last][1]]
        mark = ids.index(model.tokenizer.cls_token_id) if model.tokenizer.cls_token_id in ids else 0
        absent = min(absent, float(start[mark] + end[mark]))
    return Span(text, float(expit(absent - best)) if request.may_be_absent else 0.0)


def _require_head(model: LoadedModel, ending: str) -> None:
    model.require(Kind.CLASSIFIER, verb=f"a {ending} head")
    name = type(model.model).__name__
    if not name.endswith(ending):
        raise TaskError(f"this task needs a model with a {ending} head; {model.name} is a {name}")


def _require_problem(model: LoadedModel, request: ClassificationRequest) -> None:
    """Refuse a head that was trained for another kind of answer than the task's."""
    problem = problem_of(model.model)
    if request.problem is None or problem is request.problem:
        return
    raise TaskError(
        f"this task needs a head for {_PROBLEMS[request.problem]}; that of {model.name} is for {_PROBLEMS[problem]} "
        f"(problem_type {problem} in its config.json)"
    )


def _label_scores(model: LoadedModel, logits: Tensor) -> HeadScores:
    names = model.config.id2label
    labels = tuple(str(names[i]) for i in range(len(logits)))
    return HeadScores(_finite(model, logits), labels, problem_of(model.model))


def _finite(model: LoadedModel, logits: Tensor) -> tuple[float, ...]:
    if not bool(torch.isfinite(logits).all()):
        raise NumericsError(
            f"{model.name} gave NaN or infinite scores; its weights are broken or the precision is too low: "
            "try --dtype float32"
        )
    return tuple(logits.tolist())


def pair_features(
    model: LoadedModel, pairs: list[SpanPairRequest], done: Set[int], options: InferenceOptions
) -> Iterator[list[tuple[int, PairFeatures]]]:
    """Features of each pair: the spans' mean last-layer states u and v, |u - v| and u * v."""
    for place, pair in enumerate(pairs):
        if place not in done:
            u = _state(model, pair.first, pair.first_span)
            v = _state(model, pair.second, pair.second_span)
            values = torch.cat([u, v, (u - v).abs(), u * v]).tolist()
            yield [(place, PairFeatures(tuple(values)))]


def _state(model: LoadedModel, text: str, span: tuple[int, int]) -> Tensor:
    (encoded,) = encode_all(model, [text])
    inputs, offsets = inputs_of(model, [encoded]), encoded.alignment.offsets
    with model.lock, torch.inference_mode():
        output = model.model(**inputs, output_hidden_states=True)
    states = output.hidden_states[-1][0].float().cpu()
    inside = [
        i for i, (start, end) in enumerate(offsets) if start < span[1] and end > span[0] and end > start
    ]
    return states[inside].mean(0) if inside else states.mean(0)
