"""Likelihood of a continuation, of a word in a gap, or of a whole text, for every kind of language model."""

from __future__ import annotations

from collections.abc import Iterator, Set

from workbench.errors import DataError
from workbench.evaluate._requests import RollingRequest
from workbench.evaluate.inference.options import InferenceOptions
from workbench.models import Kind, LoadedModel
from workbench.scoring import Blank, MaskedEngine, Request, RollingScore, Score, Seq2SeqEngine
from workbench.scoring.engine import stream_rolling
from workbench.scoring.masked import MaskedRow
from workbench.text import Pieces, split_texts

__all__ = ["score_blanks", "score_continuations", "score_passages"]

_SENTINELS = ("<extra_id_0>", "<extra_id_1>")


def score_continuations(
    model: LoadedModel, requests: list[Request], done: Set[int], options: InferenceOptions
) -> Iterator[list[tuple[int, Score]]]:
    """Scores of continuations. Encoders fill the continuation from left to right after the context.

    Contexts that are too long lose their beginning.
    """
    model.require(Kind.CAUSAL, Kind.MASKED, Kind.SEQ2SEQ, verb="scoring continuations")
    if model.kind is Kind.MASKED:
        blanks = [Blank(r.context, "", r.continuation) for r in requests]
        yield from _masked(model, blanks, done, options)
    elif model.kind is Kind.SEQ2SEQ:
        engine = Seq2SeqEngine(model, options.batch_tokens, options.progress)
        yield from engine.stream(
            [Request(_fitting(model, r.context), r.continuation) for r in requests], done
        )
    else:
        yield from _causal(model, requests, done, options)


def score_blanks(
    model: LoadedModel, blanks: list[Blank], done: Set[int], options: InferenceOptions
) -> Iterator[list[tuple[int, Score]]]:
    """Scores of a word in a gap: causal models score the word and what follows it, the others the word alone."""
    model.require(Kind.CAUSAL, Kind.MASKED, Kind.SEQ2SEQ, verb="filling gaps")
    if model.kind is Kind.MASKED:
        yield from _masked(model, blanks, done, options)
    elif model.kind is Kind.CAUSAL:
        yield from _causal(model, [Request(b.before, b.answer + b.after) for b in blanks], done, options)
    else:
        yield from _seq2seq_blanks(model, blanks, done, options)


def _causal(
    model: LoadedModel, requests: list[Request], done: Set[int], options: InferenceOptions
) -> Iterator[list[tuple[int, Score]]]:
    """What requests begin with in common (a question's choices, few-shot examples) is read once."""
    engine = options.engine(model)
    yield from engine.stream_shared(engine.encode(requests), done)


def _masked(
    model: LoadedModel, blanks: list[Blank], done: Set[int], options: InferenceOptions
) -> Iterator[list[tuple[int, Score]]]:
    engine = MaskedEngine(model, "original", options.batch_tokens, options.progress)
    yield from engine.stream_rows([_rows(model, blank) for blank in blanks], done)


def _rows(model: LoadedModel, blank: Blank) -> list[MaskedRow]:
    """One copy for each piece of the answer: it and those after it in the answer are masked."""
    text = blank.before + blank.answer + blank.after
    (pieces,) = split_texts([text], model.tokenizer)
    places = pieces.within(len(blank.before), len(blank.before) + len(blank.answer))
    if not places:
        raise DataError(f"the tokenizer has no piece for the answer {blank.answer!r:.60}")
    dropped = _places_to_drop(model, pieces, places)
    kept = [i for i in range(len(pieces.ids)) if i not in dropped]
    ids, segments = [pieces.ids[i] for i in kept], [pieces.segments[i] for i in kept]
    shifted = [kept.index(place) for place in places]
    mask = model.mask_id
    return [_row(ids, segments, shifted, number, mask) for number in range(len(shifted))]


def _row(ids: list[int], segments: list[int], places: list[int], number: int, mask: int) -> MaskedRow:
    hidden = list(ids)
    for place in places[number:]:
        hidden[place] = mask
    return MaskedRow(tuple(hidden), tuple(segments), places[number], ids[places[number]])


def _places_to_drop(model: LoadedModel, pieces: Pieces, places: list[int]) -> set[int]:
    """Places to drop so that the model can read the rest: from the start, then from the end."""
    length = len(pieces.ids)
    over = length - model.max_length
    if over <= 0:
        return set()
    before = [i for i in range(places[0]) if pieces.words[i] is not None]
    after = [i for i in range(length - 1, places[-1], -1) if pieces.words[i] is not None]
    if over > len(before) + len(after):
        raise DataError(
            f"an answer of {len(places)} tokens; {model.name} reads at most {model.max_length} with all around it"
        )
    return set((before + after)[:over])


def _seq2seq_blanks(
    model: LoadedModel, blanks: list[Blank], done: Set[int], options: InferenceOptions
) -> Iterator[list[tuple[int, Score]]]:
    engine = Seq2SeqEngine(model, options.batch_tokens, options.progress)
    sentinel = model.tokenizer.get_vocab().get(_SENTINELS[0])
    if sentinel is None:
        mask = model.tokenizer.mask_token or ""
        requests = [Request(_fitting(model, b.before) + mask + b.after, b.before + b.answer) for b in blanks]
        yield from engine.stream(requests, done)
        return
    requests = [
        Request(_fitting(model, b.before) + _SENTINELS[0] + b.after, f"{_SENTINELS[0]} {b.answer.strip()}")
        for b in blanks
    ]
    for batch in engine.stream(requests, done):
        yield [(i, _after(score, sentinel)) for i, score in batch]


def _after(score: Score, sentinel: int) -> Score:
    """Without the sentinel that starts it."""
    if score.token_ids[0] != sentinel:
        return score
    return Score(
        score.token_ids[1:], score.token_log_probabilities[1:], score.greedy_ids[1:], score.ranks[1:]
    )


def _fitting(model: LoadedModel, text: str) -> str:
    """The end of ``text`` that an encoder can read."""
    (pieces,) = split_texts([text], model.tokenizer, add_special_tokens=False)
    offsets = pieces.offsets
    over = len(offsets) - (model.max_length - 8)
    return text[offsets[over][0] :] if over > 0 else text


def score_passages(
    model: LoadedModel, passages: list[RollingRequest], done: Set[int], options: InferenceOptions
) -> Iterator[list[tuple[int, RollingScore]]]:
    """Each passage's log-likelihood; its first token is predicted from the model's prefix token."""
    model.require(Kind.CAUSAL, verb="perplexity")
    engine = options.engine(model)
    length = model.max_length
    strides = [min(passage.stride or length, length) for passage in passages]
    yield from stream_rolling(engine, [passage.text for passage in passages], length, strides, done)
