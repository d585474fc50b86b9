"""Cloze: how likely a word is in a blank, and which rank it has there."""

from __future__ import annotations

from collections.abc import Sequence as Sequence_
from dataclasses import dataclass

from workbench.errors import DataError
from workbench.models import Kind, LoadedModel
from workbench.scoring._requests import Request, Score
from workbench.scoring.engine import Engine
from workbench.scoring.masked import MaskedEngine, Masking
from workbench.scoring.seq2seq import Seq2SeqEngine
from workbench.text import SpecialTokens, split_texts

__all__ = ["Blank", "ClozeScore", "score_cloze"]

_SENTINELS = ("<extra_id_0>", "<extra_id_1>")


@dataclass(frozen=True)
class Blank:
    """A text with a hole between ``before`` and ``after``, and the word asked for."""

    before: str
    after: str
    answer: str


@dataclass(frozen=True)
class ClozeScore:
    """Log-probability (nats) of the answer, summed over its pieces, and its rank.

    ``rank`` counts from 1 over the vocabulary; for an answer of several pieces it is the worst rank of a
    piece given the true pieces before it, so rank 1 means that greedy decoding writes the answer.
    ``top`` is what the model itself would put first.
    """

    log_probability: float
    rank: int
    pieces: int
    top: str


def score_cloze(
    model: LoadedModel,
    blanks: Sequence_[Blank],
    *,
    first_token: str = "auto",
    batch_tokens: str | int = "auto",
    progress: bool = False,
) -> list[ClozeScore]:
    """Scores of each blank's answer.

    Masked models read both sides, with one mask a piece, filled from left to right. Encoder-decoders read
    both sides and write the answer behind their first sentinel. Causal models read only what is before the
    blank: what comes after is not seen. Raises :class:`~workbench.errors.ModelError` for other kinds and
    :class:`~workbench.errors.DataError` for an empty answer.

    Example:
        ```python
        import workbench
        from workbench.scoring import Blank, score_cloze

        blank = Blank("She was very", "to see him.", " happy")
        (found,) = score_cloze(workbench.load("novels-encoder"), [blank])
        print(found.log_probability, found.rank)
        ```
    """
    for blank in blanks:
        if not blank.answer.strip():
            raise DataError(f"empty answer for the blank after {blank.before[-40:]!r}")
    model.require(Kind.CAUSAL, Kind.MASKED, Kind.SEQ2SEQ, verb="cloze")
    if model.kind is Kind.MASKED:
        scores = _masked(model, blanks, batch_tokens, progress)
    elif model.kind is Kind.CAUSAL:
        engine = Engine(model, first_token, batch_tokens, progress)
        scores = engine.score([Request(b.before.rstrip(), _spaced(b)) for b in blanks])
    else:
        scores = _seq2seq(model, blanks, batch_tokens, progress)
    return [_cloze(model, score) for score in scores]


def _spaced(blank: Blank) -> str:
    """The answer with the white space that stands before it in the text, a space if there is none."""
    kept = blank.before[len(blank.before.rstrip()) :]
    return (kept or (" " if blank.before.strip() else "")) + blank.answer


def _cloze(model: LoadedModel, score: Score) -> ClozeScore:
    top = model.tokenizer.decode(list(score.greedy_ids[:1])).strip()
    return ClozeScore(score.log_probability, max(score.ranks), score.tokens, top)


def _masked(
    model: LoadedModel, blanks: Sequence_[Blank], batch_tokens: str | int, progress: bool
) -> list[Score]:
    engine = MaskedEngine(model, Masking.ORIGINAL, batch_tokens, progress)
    groups = []
    for blank, text in zip(
        blanks, engine.encode([b.before + b.answer + b.after for b in blanks]), strict=True
    ):
        start, end = _pieces(model, blank)
        # Within the answer, a piece sees the pieces before it and masks after it.
        inside = tuple(-1 if start <= i < end else word for i, word in enumerate(text.words))
        whole = type(text)(text.ids, text.segments, inside)
        mask = model.mask_id
        groups.append([whole.row(place, mask, Masking.WITHIN_WORD) for place in range(start, end)])
    answers = dict(pair for batch in engine.stream_rows(groups) for pair in batch)
    return [answers[i] for i in range(len(groups))]


def _pieces(model: LoadedModel, blank: Blank) -> tuple[int, int]:
    """Places of the answer's pieces, by their characters in the text."""
    text = blank.before + blank.answer + blank.after
    (pieces,) = split_texts([text], model.tokenizer)
    places = pieces.within(len(blank.before), len(blank.before) + len(blank.answer))
    if not places:
        raise DataError(f"the tokenizer has no piece for the answer {blank.answer!r}")
    return places[0], places[-1] + 1


def _seq2seq(
    model: LoadedModel, blanks: Sequence_[Blank], batch_tokens: str | int, progress: bool
) -> list[Score]:
    if model.prompt.special_tokens is SpecialTokens.TEXT:
        raise DataError("a special token marks the blank; leave out --special-tokens text")
    engine = Seq2SeqEngine(model, batch_tokens, progress)
    known = model.tokenizer.get_vocab()
    if _SENTINELS[0] in known:  # trained to write what a sentinel stands for
        requests = [
            Request(b.before + _SENTINELS[0] + b.after, f"{_SENTINELS[0]} {b.answer}") for b in blanks
        ]
        sentinel = known[_SENTINELS[0]]
        return [_without_first(s) if s.token_ids[0] == sentinel else s for s in engine.score(requests)]
    mask = model.tokenizer.mask_token or ""
    return engine.score([Request(b.before + mask + b.after, b.before + b.answer) for b in blanks])


def _without_first(score: Score) -> Score:
    return Score(
        score.token_ids[1:], score.token_log_probabilities[1:], score.greedy_ids[1:], score.ranks[1:]
    )
