"""Minimal pairs under every kind of language model: which member does the model find more probable?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import takewhile
from typing import Protocol, TypeAlias

from challenge_sets._conventions import CONVENTIONS, Convention, Reduction, convention, reduction
from challenge_sets._records import MinimalPair
from workbench.choices import as_members, member
from workbench.errors import ModelError, TooLong
from workbench.models import Kind, LoadedModel
from workbench.models.measured import takes_order
from workbench.scoring import (
    DetectionEngine,
    Engine,
    MaskedEngine,
    Masking,
    PermutationEngine,
    PrefixGroup,
    Request,
    Score,
    Seq2SeqEngine,
)
from workbench.scoring.masked import MaskedText

__all__ = [
    "CONVENTIONS",
    "CausalPairs",
    "Convention",
    "DetectorPairs",
    "MaskedPairs",
    "MinimalPair",
    "PairScore",
    "PairScorer",
    "PermutationPairs",
    "Reduction",
    "Seq2SeqPairs",
    "TextPair",
    "common_places",
    "first_difference",
    "pair_scorer",
    "score_pairs",
    "too_long",
]

TextPair: TypeAlias = tuple[str, str]
Stream: TypeAlias = Iterator[list[tuple[int, "PairScore"]]]
_SENTINEL = "<extra_id_0>"


@dataclass(frozen=True)
class PairScore:
    """Scores of the two members in nats: sums over whole texts, or means per token or word.

    ``tokens`` counts the scored tokens of each. ``difference`` is that of the sums without the tokens that both
    members share at the start, which are equal, so that rounding neither makes nor breaks a tie.
    """

    first: float
    second: float
    tokens: tuple[int, int]
    difference: float | None = None

    @property
    def margin(self) -> float:
        """By how much the first member is more probable, in nats."""
        return self.first - self.second if self.difference is None else self.difference


class PairScorer(Protocol):
    """Scores pairs of texts with one model; ``policy`` says how, for the record."""

    @property
    def policy(self) -> str:
        """What is scored, in words."""

    def encode(self, pairs: Sequence[TextPair]) -> object:
        """Token ids of the pairs; raises :class:`~workbench.errors.TooLong` for one that the model cannot read."""

    def stream(self, pairs: Sequence[TextPair], done: Set[int] = frozenset()) -> Stream:
        """Yield ``(position in pairs, score)`` batch by batch; pairs in ``done`` may be left out."""


@dataclass(frozen=True)
class CausalPairs:
    """Log-probability under a causal model; what the members share at the start is read once."""

    model: LoadedModel
    convention: Convention = CONVENTIONS["workbench"]
    reduction: Reduction = Reduction.SUM
    batch_tokens: str | int = "auto"
    progress: bool = False

    def __post_init__(self) -> None:
        as_members(self)

    @property
    def policy(self) -> str:
        """Convention and reduction."""
        chat = "in chat format each is the reply to an empty message"
        return f"{self.reduction} of log-probabilities; {chat if self.model.prompt.chat else self.convention.reason}"

    def groups(self, pairs: Sequence[TextPair]) -> list[PrefixGroup]:
        """What is scored together: a pair's members, whose common prefix is read once."""
        space = "" if self.model.prompt.chat else self.convention.space
        requests = [Request("", space + text) for pair in pairs for text in pair]
        sequences = self._engine().encode(requests)
        return [PrefixGroup((a, b)) for a, b in zip(sequences[::2], sequences[1::2], strict=True)]

    def encode(self, pairs: Sequence[TextPair]) -> object:
        """See :class:`PairScorer`."""
        return self.groups(pairs)

    def stream(self, pairs: Sequence[TextPair], done: Set[int] = frozenset()) -> Stream:
        """See :class:`PairScorer`."""
        for batch in self._engine().stream_groups(self.groups(pairs), done):
            yield [(place, self._score(pairs[place], scores)) for place, scores in batch]

    def _score(self, pair: TextPair, scores: Sequence[Score]) -> PairScore:
        found = _compared(pair, scores, self.reduction)
        if self.reduction is not Reduction.SUM:
            return found
        shared = _same(scores[0].token_ids, scores[1].token_ids)
        first, second = (sum(score.token_log_probabilities[shared:]) for score in scores)
        return replace(found, difference=first - second)

    def _engine(self) -> Engine:
        return Engine(self.model, self.convention.first_token, self.batch_tokens, self.progress)


@dataclass(frozen=True)
class MaskedPairs:
    """Pseudo-log-likelihood under a masked model.

    With ``shared_only`` only the tokens that both members have are scored, given those that differ: the
    measure of CrowS-Pairs (Nangia et al. 2020, section 3), which does not reward frequent words.
    """

    model: LoadedModel
    masking: Masking = Masking.ORIGINAL
    reduction: Reduction = Reduction.SUM
    shared_only: bool = False
    batch_tokens: str | int = "auto"
    progress: bool = False

    def __post_init__(self) -> None:
        as_members(self)

    @property
    def policy(self) -> str:
        """Masking, reduction and which tokens."""
        which = "the tokens that both members have" if self.shared_only else "all tokens"
        return f"{self.reduction} of pseudo-log-likelihoods ({self.masking} masking) of {which}"

    def encode(self, pairs: Sequence[TextPair]) -> list[MaskedText]:
        """See :class:`PairScorer`."""
        return self._engine().encode([text for pair in pairs for text in pair])

    def _engine(self) -> MaskedEngine:
        return MaskedEngine(self.model, self.masking, self.batch_tokens, self.progress)

    def stream(self, pairs: Sequence[TextPair], done: Set[int] = frozenset()) -> Stream:
        """See :class:`PairScorer`."""
        engine, texts = self._engine(), self.encode(pairs)
        groups = []
        for first, second in zip(texts[::2], texts[1::2], strict=True):
            places = _common_places(first.ids, second.ids) if self.shared_only else (None, None)
            groups += [engine.rows(first, places[0]), engine.rows(second, places[1])]
        finished = _members(done)
        yield from _by_pair(engine.stream_rows(groups, finished), pairs, self.reduction)


def _by_pair(
    batches: Iterable[Sequence[tuple[int, Score]]], pairs: Sequence[TextPair], reduction: Reduction
) -> Stream:
    """The scores of single texts (those of pair n stand at 2n and 2n + 1), pair by pair as both are there."""
    half: dict[int, dict[int, Score]] = {}
    for batch in batches:
        ready = []
        for place, score in batch:
            members = half.setdefault(place // 2, {})
            members[place % 2] = score
            if len(members) == 2:
                ready.append((place // 2, half.pop(place // 2)))
        yield [(n, _compared(pairs[n], (m[0], m[1]), reduction)) for n, m in ready]


def _members(pairs: Set[int]) -> set[int]:
    """Places of both members of the pairs among all texts."""
    return {2 * n + k for n in pairs for k in (0, 1)}


def _common_places(first: Sequence[int], second: Sequence[int]) -> tuple[list[int], list[int]]:
    """Places of the tokens that both have, in order, without the special tokens at the ends."""
    inner = [
        (a, b) for a, b in common_places(first, second) if 0 < a < len(first) - 1 and 0 < b < len(second) - 1
    ]
    return [a for a, _ in inner], [b for _, b in inner]


@dataclass(frozen=True)
class DetectorPairs:
    """Log-probability that tokens are original ones, by ELECTRA's discriminator: a score, no likelihood of the text."""

    model: LoadedModel
    reduction: Reduction = Reduction.SUM
    batch_tokens: str | int = "auto"
    progress: bool = False

    def __post_init__(self) -> None:
        as_members(self)

    @property
    def policy(self) -> str:
        """Reduction and what is asked."""
        return f"{self.reduction} of log-probabilities that each token is original, no likelihood of the text"

    def encode(self, pairs: Sequence[TextPair]) -> list[MaskedText]:
        """See :class:`PairScorer`."""
        return self._engine().encode([text for pair in pairs for text in pair])

    def _engine(self) -> DetectionEngine:
        return DetectionEngine(self.model, self.batch_tokens, self.progress)

    def stream(self, pairs: Sequence[TextPair], done: Set[int] = frozenset()) -> Stream:
        """See :class:`PairScorer`."""
        finished = _members(done)
        yield from _by_pair(self._engine().stream(self.encode(pairs), finished), pairs, self.reduction)


@dataclass(frozen=True)
class PermutationPairs:
    """Log-probability under a model that predicts in any order (XLNet), in the order of the text."""

    model: LoadedModel
    convention: Convention = CONVENTIONS["workbench"]
    reduction: Reduction = Reduction.SUM
    batch_tokens: str | int = "auto"
    progress: bool = False

    def __post_init__(self) -> None:
        as_members(self)

    @property
    def policy(self) -> str:
        """Convention and reduction."""
        return f"{self.reduction} of log-probabilities in the order of the text; {self.convention.reason}"

    def encode(self, pairs: Sequence[TextPair]) -> object:
        """See :class:`PairScorer`."""
        return self._engine().encode(self._texts(pairs))

    def _texts(self, pairs: Sequence[TextPair]) -> list[str]:
        return [self.convention.space + text for pair in pairs for text in pair]

    def _engine(self) -> PermutationEngine:
        return PermutationEngine(self.model, self.convention.first_token, self.batch_tokens, self.progress)

    def stream(self, pairs: Sequence[TextPair], done: Set[int] = frozenset()) -> Stream:
        """See :class:`PairScorer`."""
        engine = self._engine()
        finished = _members(done)
        sequences = engine.encode(self._texts(pairs))
        yield from _by_pair(engine.stream(sequences, finished), pairs, self.reduction)


@dataclass(frozen=True)
class Seq2SeqPairs:
    """Likelihood under an encoder-decoder of what differs, given the rest.

    The differing stretch is replaced by the model's first sentinel (T5) and must be written by the decoder;
    models without sentinels (BART) read the text with their mask token and write it whole.
    """

    model: LoadedModel
    reduction: Reduction = Reduction.SUM
    batch_tokens: str | int = "auto"
    progress: bool = False

    def __post_init__(self) -> None:
        as_members(self)

    @property
    def policy(self) -> str:
        """Reduction and what is written."""
        chat = "; in chat format the text around it is the message" if self.model.prompt.chat else ""
        return f"{self.reduction} of log-probabilities of the differing stretch, written by the decoder{chat}"

    def encode(self, pairs: Sequence[TextPair]) -> object:
        """See :class:`PairScorer`."""
        return self._engine().encode([request for pair in pairs for request in self._requests(pair)])

    def _engine(self) -> Seq2SeqEngine:
        return Seq2SeqEngine(self.model, self.batch_tokens, self.progress)

    def stream(self, pairs: Sequence[TextPair], done: Set[int] = frozenset()) -> Stream:
        """See :class:`PairScorer`."""
        requests = [request for pair in pairs for request in self._requests(pair)]
        finished = _members(done)
        yield from _by_pair(self._engine().stream(requests, finished), pairs, self.reduction)

    def _requests(self, pair: TextPair) -> tuple[Request, Request]:
        before, stretches, after = _differing_words(pair)
        if _SENTINEL in self.model.tokenizer.get_vocab():
            source = " ".join([*before, _SENTINEL, *after])
            first, second = (Request(source, f"{_SENTINEL} {' '.join(words)}") for words in stretches)
            return first, second
        if self.model.tokenizer.mask_token is None:
            raise ModelError(
                f"{self.model.name} has neither sentinels nor a mask token to hide a stretch with"
            )
        source = " ".join([*before, self.model.tokenizer.mask_token, *after])
        return Request(source, pair[0]), Request(source, pair[1])


def _differing_words(pair: TextPair) -> tuple[list[str], tuple[list[str], list[str]], list[str]]:
    """Words before the difference, the two stretches that differ, words after it."""
    first, second = (text.split() for text in pair)
    start = _same(first, second)
    end = _same(first[start:][::-1], second[start:][::-1])
    stop = [len(words) - end for words in (first, second)]
    return first[:start], (first[start : stop[0]], second[start : stop[1]]), first[stop[0] :]


def _same(first: Sequence[object], second: Sequence[object]) -> int:
    """Number of leading words (or ids) that both have."""
    return sum(1 for _ in takewhile(lambda words: words[0] == words[1], zip(first, second, strict=False)))


def _compared(pair: TextPair, scores: Sequence[Score], how: Reduction) -> PairScore:
    first, second = (_reduced(text, score, how) for text, score in zip(pair, scores, strict=True))
    return PairScore(first, second, (scores[0].tokens, scores[1].tokens))


def _reduced(text: str, score: Score, how: Reduction) -> float:
    counts = {Reduction.SUM: 1, Reduction.MEAN: score.tokens, Reduction.WORD: len(text.split())}
    return score.log_probability / max(counts[how], 1)


def pair_scorer(
    model: LoadedModel,
    *,
    convention_name: str = "workbench",
    reduction_name: str = "sum",
    masking: str = "original",
    shared_only: bool = False,
    batch_tokens: str | int = "auto",
    progress: bool = False,
) -> PairScorer:
    """The scorer for this kind of model. Conventions are of causal models, masking is of masked ones.

    Raises :class:`~workbench.errors.ConfigError` for an unknown name and
    :class:`~workbench.errors.ModelError` for a model that gives no probabilities of text.
    """
    how, chosen = reduction(reduction_name), convention(convention_name)
    if model.kind is Kind.ENCODER and takes_order(model.model):
        return PermutationPairs(model, chosen, how, batch_tokens, progress)
    model.require(Kind.CAUSAL, Kind.MASKED, Kind.SEQ2SEQ, Kind.DETECTOR, verb="scoring minimal pairs")
    if model.kind is Kind.CAUSAL:
        return CausalPairs(model, chosen, how, batch_tokens, progress)
    if model.kind is Kind.MASKED:
        return MaskedPairs(
            model, member(Masking, masking, "masking"), how, shared_only, batch_tokens, progress
        )
    if model.kind is Kind.DETECTOR:
        return DetectorPairs(model, how, batch_tokens, progress)
    return Seq2SeqPairs(model, how, batch_tokens, progress)


def score_pairs(scorer: PairScorer, pairs: Sequence[TextPair]) -> list[PairScore]:
    """All scores, in the order of ``pairs``.

    Example:
        ```python
        from challenge_sets import pair_scorer, score_pairs
        import workbench

        scorer = pair_scorer(workbench.load("novels-decoder"))
        print(score_pairs(scorer, [("The boys were here.", "The boys was here.")]))
        ```
    """
    found = dict(entry for batch in scorer.stream(pairs) for entry in batch)
    return [found[i] for i in range(len(pairs))]


def too_long(scorer: PairScorer, pairs: Sequence[TextPair]) -> dict[int, str]:
    """Places of the pairs of which a member has more tokens than the model reads, with what says so."""
    try:
        scorer.encode(pairs)
    except TooLong as error:
        if len(pairs) == 1:
            return {0: str(error)}
        half = len(pairs) // 2
        later = too_long(scorer, pairs[half:])
        return too_long(scorer, pairs[:half]) | {half + place: reason for place, reason in later.items()}
    return {}


def common_places(first: Sequence[int], second: Sequence[int]) -> list[tuple[int, int]]:
    """Places of the ids that both have, in order."""
    blocks = SequenceMatcher(None, list(first), list(second), autojunk=False).get_matching_blocks()
    return [(block.a + k, block.b + k) for block in blocks for k in range(block.size)]


def first_difference(first: Sequence[int], second: Sequence[int]) -> int:
    """Place of the first id that differs; the last place of the shorter where it begins the longer."""
    same = sum(1 for _ in takewhile(lambda ids: ids[0] == ids[1], zip(first, second, strict=False)))
    return min(same, len(first) - 1, len(second) - 1)
