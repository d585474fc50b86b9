"""Score the tokens of a text for a model's prediction: ``workbench.attribute``."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import torch

from workbench.analysis.saliency._functions import (
    BASELINE,
    WordsOfFunction,
    ask_function,
    method_of_functions,
)
from workbench.analysis.saliency._integrated import SMALLEST
from workbench.analysis.saliency._methods import METHODS, Raw, SaliencyMethod, SaliencyOptions
from workbench.analysis.saliency._record import Attribution, Normalisation
from workbench.analysis.saliency.attribution_target import AttributionTarget, Output
from workbench.analysis.saliency.baselines import Baseline, baseline_name, baseline_vectors
from workbench.analysis.saliency.embedding_model import EmbeddingModel, differentiable
from workbench.analysis.saliency.targets import TargetName, TargetRequest, ask
from workbench.choices import member
from workbench.errors import NumericsError, TaskError, WorkbenchWarning
from workbench.models import Kind, LoadedModel, TextFunction, as_subject
from workbench.records import takes_fields_of
from workbench.shapes import Array
from workbench.text import PromptFormat
from workbench.trace import Text
from workbench.trace.encoding import say_cut

__all__ = ["AttributionWarning", "attribute", "attribute_all", "attribute_targets"]

DEAR = 2_000_000  # tokens through the model for one text, above which a cost must be agreed to


class AttributionWarning(WorkbenchWarning):
    """Scores whose completeness error is beyond the tolerance."""


@takes_fields_of(PromptFormat)
def attribute(
    model: LoadedModel | TextFunction | str | Callable[..., Any],
    text: Text,
    method: str = "integrated_gradients",
    *,
    target: TargetName = None,
    contrast: TargetName = None,
    position: int | None = None,
    output: Output | str | None = None,
    baseline: Baseline = None,
    words: bool | str = False,
    normalise: Normalisation | str = Normalisation.NONE,
    options: SaliencyOptions | None = None,
    seed: int | None = None,
    allow_cost: bool = False,
    **prompt: Any,
) -> Attribution:
    """Score the tokens of ``text`` for one prediction of ``model``.

    Args:
        model: a causal, masked, seq2seq or classifier model, or its name; or a function from texts to probabilities
            (:func:`workbench.wrap`), whose words are left out one by one or many at once: by "occlusion", "lime" or
            "kernel_shap".
        text: a text, a ``(first, second)`` pair, or an alignment; for a masked model with its mask token.
        method: a name of :data:`METHODS`.
        target: a continuation (causal), word in the blank (masked), text to write (seq2seq), class or label
            (classifier), or "start", "end", "span"; an id where it makes sense; the likeliest by default.
        contrast: explain ``target`` rather than this: the difference of the two.
        position: which blank, generated token, or labelled token, from 0; see :func:`ask`.
        output: "logit" (default of classifiers), "log_probability" (of language models) or "probability" (of
            functions).
        baseline: "mask" (default where there is one), "pad", "zero", "mean", or vectors (D,) or (T, D).
        words: merge sub-words: ``True``, "sum", "mean" or "max"; see :meth:`Attribution.words`.
        normalise: "none", "sum" or "max".
        options: steps, samples, unit, layer and others; see :class:`SaliencyOptions`.
        seed: short for ``options=SaliencyOptions(seed=...)``.
        allow_cost: go on although a text costs more than 2 million tokens through the model.
        **prompt: how the model reads the text: fields of :class:`~workbench.text.PromptFormat`. In ``chat``
            format the target follows the generation prompt, and the template's tokens get no scores.

    Raises:
        TaskError: an unknown method or target, or one that the model has no head for; two different seeds.
        ModelError, NumericsError: no gradients, or gradients that are not finite; the layer is named.

    Example:
        ```python
        import workbench

        scores = workbench.attribute("sentiment-encoder", "A wonderful film.", method="saliency")
        print(scores.to_frame())
        ```
    """
    found = attribute_all(
        as_subject(model, **prompt),
        [text],
        method,
        targets=[target],
        contrasts=[contrast],
        position=position,
        output=output,
        baseline=baseline,
        options=_seeded(options or SaliencyOptions(), seed),
        allow_cost=allow_cost,
    )[0]
    if words:
        found = found.words(None if words is True else words)
    return found.normalised(normalise)


def _seeded(options: SaliencyOptions, seed: int | None) -> SaliencyOptions:
    if seed is not None and options.seed not in (seed, SaliencyOptions().seed):
        raise TaskError(f"seed is {seed}, and options have seed {options.seed}; name it once")
    return options if seed is None else replace(options, seed=seed)


_SINK = (
    "the first token scores highest; taking a decoder's first token out takes out its attention sink: keep_first "
    "(--keep-first) leaves it in place"
)


def attribute_all(
    model: LoadedModel | TextFunction,
    texts: Sequence[Text],
    method: str = "integrated_gradients",
    *,
    targets: Sequence[TargetName] | None = None,
    contrasts: Sequence[TargetName] | None = None,
    position: int | None = None,
    output: Output | str | None = None,
    baseline: Baseline = None,
    options: SaliencyOptions | None = None,
    allow_cost: bool = False,
) -> list[Attribution]:
    """:func:`attribute` for many texts, which share forward passes; results do not depend on which."""
    targets = [None] * len(texts) if targets is None else targets
    contrasts = [None] * len(texts) if contrasts is None else contrasts
    if not len(texts) == len(targets) == len(contrasts):
        raise TaskError(
            f"{len(texts)} texts, {len(targets)} targets, {len(contrasts)} contrasts: one for each text"
        )
    METHODS.get(method)  # an unknown method is reported before the model runs
    form, given = _output(output), options or SaliencyOptions()
    asked = [TargetRequest(*both, position, form) for both in zip(targets, contrasts, strict=True)]
    if isinstance(model, TextFunction):
        return _of_function(model, texts, asked, method, baseline, given)
    with model.lock:
        questions = [ask(model, text, one) for text, one in zip(texts, asked, strict=True)]
    return attribute_targets(model, questions, method, baseline, given, allow_cost)


def _of_function(
    function: TextFunction,
    texts: Sequence[Text],
    asked: Sequence[TargetRequest],
    method: str,
    baseline: Baseline,
    options: SaliencyOptions,
) -> list[Attribution]:
    """Scores of words for a function's answers, in the order of ``texts``."""
    chosen = method_of_functions(method, function)
    if baseline is not None:
        raise TaskError(f"baseline {baseline!r} is a model's; words of a function's texts are left out")
    questions = [ask_function(function, text, one) for text, one in zip(texts, asked, strict=True)]
    if options.keep_first:
        questions = [_keeping_first(question) for question in questions]
    words = cast(EmbeddingModel, WordsOfFunction(function, questions))
    results = _records(words, chosen.compute(words, options), chosen, BASELINE, options)
    _warn(results, options)
    return results


def attribute_targets(
    model: LoadedModel,
    questions: Sequence[AttributionTarget],
    method: str,
    baseline: Baseline = None,
    options: SaliencyOptions | None = None,
    allow_cost: bool = False,
) -> list[Attribution]:
    """Scores for questions that are asked already, in their order."""
    chosen, given = METHODS.get(method), options or SaliencyOptions()
    if given.keep_first:
        questions = [_keeping_first(question) for question in questions]
    name = baseline_name(model, baseline)
    vectors = baseline_vectors(model, baseline)
    for question in questions:
        _check(model, question, chosen, given, allow_cost)
    say_cut([question.encoded for question in questions], model)
    done: dict[int, Attribution] = {}
    with differentiable(model):
        for numbers in _batches(questions, given.batch_tokens):
            embedded = EmbeddingModel(model, [questions[i] for i in numbers], vectors)
            raw = chosen.compute(embedded, given)
            done.update(zip(numbers, _records(embedded, raw, chosen, name, given), strict=True))
    results = [done[i] for i in range(len(questions))]
    _warn(results, given)
    return results


def _keeping_first(question: AttributionTarget) -> AttributionTarget:
    """The first token that would be attributed is not."""
    first = next((i for i, kept in enumerate(question.attributed) if kept), None)
    return replace(
        question, attributed=tuple(kept and i != first for i, kept in enumerate(question.attributed))
    )


def _output(output: Output | str | None) -> Output | None:
    return None if output is None else member(Output, output, "output", TaskError)


def _check(
    model: LoadedModel,
    question: AttributionTarget,
    method: SaliencyMethod,
    options: SaliencyOptions,
    allow_cost: bool,
) -> None:
    if not any(question.attributed):
        raise TaskError(
            f"text {question.encoded.alignment.text[:40]!r} has no token to explain beside special tokens and masks"
        )
    length = max(question.tokens + len(read.suffix) for read in question.reads)
    if length > model.max_length:
        raise TaskError(
            f"text and target are {length} tokens; {model.name} reads {model.max_length}: shorten them"
        )
    passes = method.passes(sum(question.attributed), options)
    if passes * length > DEAR and not allow_cost:
        hours = 2 * model.num_parameters * passes * length / 5e10 / 3600
        raise TaskError(
            f"{method.name} takes {passes:,} passes over {length:,} tokens, {passes * length:,} in all: about "
            f"{hours:.1f} hours at 50 GFLOP/s; shorten the text, lower samples or steps, or go on with --yes "
            "(allow_cost=True)"
        )


def _batches(questions: Sequence[AttributionTarget], tokens: int) -> list[list[int]]:
    """Positions of questions in batches of like length; embeddings of a batch are held at once."""
    order = sorted(range(len(questions)), key=lambda i: -questions[i].tokens)
    batches: list[list[int]] = []
    for i in order:
        longest = questions[batches[-1][0]].tokens if batches else 0
        if batches and longest * (len(batches[-1]) + 1) <= 4 * tokens:
            batches[-1].append(i)
        else:
            batches.append([i])
    return batches


def _records(
    embedded: EmbeddingModel, raw: Raw, method: SaliencyMethod, baseline: str, options: SaliencyOptions
) -> list[Attribution]:
    scores = raw.scores.detach().double().cpu().numpy()
    at_baseline: list[float] | None = None
    if raw.ends is not None:
        at_baseline, values = ([end[i] for end in raw.ends] for i in (0, 1))
    else:
        values = _values(embedded, embedded.embeddings, options)
        at_baseline = _values(embedded, embedded.baseline, options) if method.uses_baseline else None
    records = []
    for row, question in enumerate(embedded.questions):
        own = scores[row, : question.tokens]
        if not torch.isfinite(torch.as_tensor(own)).all() or values[row] != values[row]:
            raise NumericsError(f"{method.name} gave NaN or infinite scores for {embedded.model.name}")
        extra: dict[str, Any] = {}
        if at_baseline is not None:
            extra = {"baseline": baseline, "baseline_value": at_baseline[row]}
        if at_baseline is not None and method.additive:
            extra["delta"] = float(own.sum()) - (values[row] - at_baseline[row])
        records.append(
            Attribution(
                model=embedded.model.name,
                method=method.name,
                target=question.label,
                target_note=question.note,
                value=values[row],
                tokens=question.encoded.alignment.tokens,
                scores=own,
                attributed=question.attributed,
                alignment=question.encoded.alignment,
                signed=method.signed,
                convention=method.convention,
                steps=raw.steps[row],
                layer=raw.layer,
                seed=options.seed if method.seeded else None,
                note=_sink_note(embedded.model, own, question) if method.uses_baseline else "",
                **extra,
            )
        )
    return records


def _sink_note(model: LoadedModel | TextFunction, scores: Array, question: AttributionTarget) -> str:
    """Said where a decoder's first token has the largest score of a method that takes tokens out."""
    sink = model.kind is Kind.CAUSAL and question.attributed[0] and abs(scores[0]) == abs(scores).max() > 0
    return _SINK if sink else ""


def _values(embedded: EmbeddingModel, embeddings: torch.Tensor, options: SaliencyOptions) -> list[float]:
    values = [0.0] * len(embedded)
    for rows in embedded.chunks(range(len(embedded)), options.batch_tokens):
        width = max(embedded.lengths[row] for row in rows)
        found = embedded.values(embeddings[rows, :width], torch.tensor(rows))
        for row, value in zip(rows, found.tolist(), strict=True):
            values[row] = value
    return values


def _warn(results: Sequence[Attribution], options: SaliencyOptions) -> None:
    """Say so where scores do not sum to what they should within the tolerance."""
    beyond = [
        r
        for r in results
        if r.delta is not None
        and r.baseline_value is not None
        and abs(r.delta) > options.tolerance * max(abs(r.value - r.baseline_value), SMALLEST)
    ]
    if beyond:
        worst = max(beyond, key=lambda r: abs(r.delta or 0))
        difference = worst.value - (worst.baseline_value or 0)
        which = f"for {len(beyond)} of {len(results)} texts" if len(results) > 1 else "for this text"
        warnings.warn(
            f"{worst.method}: {which} the scores do not sum to the difference from the baseline: "
            f"{worst.scores.sum():+.3g} for {difference:+.3g}; {_advice(worst)}",
            AttributionWarning,
            stacklevel=4,
        )


def _advice(found: Attribution) -> str:
    """What to do about scores that do not sum to the difference."""
    method = METHODS.get(found.method)
    if method.complete or found.layer is not None:
        return f"{found.steps} steps were too few: raise steps"
    if method.seeded:
        return f"{found.steps} samples were too few, or the noise too large: raise samples"
    return "read them as a ranking at most, or use integrated_gradients"
