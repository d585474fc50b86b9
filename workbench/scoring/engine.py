"""The engine: encode, drop duplicates, sort by length, batch by tokens, score, give back in any order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Set
from collections.abc import Sequence as Sequence_
from dataclasses import dataclass
from typing import Any

from workbench.choices import as_members
from workbench.errors import ConfigError, DataError
from workbench.models import Kind, LoadedModel, as_model
from workbench.records import takes_fields_of
from workbench.scoring._forward import forward_batch
from workbench.scoring._requests import (
    WHOLE_TEXT,
    Boundary,
    FirstToken,
    Request,
    RollingScore,
    Score,
    Sequence,
    encode_requests,
    encode_texts,
    prefix_ids,
    resolve_first_token,
)
from workbench.scoring.prefix_tree import (
    LongPrefix,
    Plan,
    PrefixGroup,
    PrefixTree,
    build_trees,
    forward_trees,
    plan_prefixes,
    read_prefix,
    support_of,
)
from workbench.scoring.seq2seq import Seq2SeqEngine
from workbench.scoring.streams import Stream, by_group, collect
from workbench.text import PromptFormat

__all__ = ["Engine", "score", "score_rolling", "stream_rolling", "windows"]


@dataclass(frozen=True)
class Engine:
    """Scores requests with one model under one stated policy.

    ``first_token`` says what the first token of a text without context is predicted from (see
    :class:`FirstToken`; ``auto`` is resolved per tokenizer, :attr:`policy` is what it became).
    ``batch_tokens`` is the budget of one forward pass, padding included. Scores do not depend on it
    beyond rounding: sequences are padded on the right, where causal attention never looks. ``boundary`` says where a
    continuation begins (see :class:`Boundary`). With ``keep_bos`` the BOS (or prefix token) of a text stands in front
    of each of its windows, and of what is left of a context that is too long; lm-eval leaves it to the first window
    and drops it with the context's beginning, which is the default.
    """

    model: LoadedModel
    first_token: str = "auto"
    batch_tokens: str | int = "auto"
    progress: bool = False
    boundary: Boundary | str = Boundary.JOINT
    keep_bos: bool = False

    def __post_init__(self) -> None:
        as_members(self)
        self.model.require(Kind.CAUSAL, verb="scoring continuations")

    @property
    def policy(self) -> FirstToken:
        """The first-token policy in force."""
        return resolve_first_token(self.model, self.first_token)

    def encode(self, requests: Sequence_[Request]) -> list[Sequence]:
        """Token ids of each request and where its scored part starts."""
        return encode_requests(self.model, requests, self.policy, Boundary(self.boundary), self.keep_bos)

    def stream(
        self, requests: Sequence_[Request], done: Set[int] = frozenset()
    ) -> Iterator[list[tuple[int, Score]]]:
        """Yield ``(position in requests, score)`` for each finished batch, longest requests first.

        A batch whose positions are all in ``done`` is left out. Batches are planned over all requests, so
        those that are computed are the same whatever was done before, and so are their scores.
        """
        yield from self.stream_sequences(self.encode(requests), done)

    def stream_sequences(
        self, sequences: list[Sequence], done: Set[int] = frozenset()
    ) -> Iterator[list[tuple[int, Score]]]:
        """As :meth:`stream`, for requests that are token ids already. Equal sequences are computed once."""
        yield from Stream(self.model, forward_batch, self.batch_tokens, self.progress)(sequences, done)

    def stream_groups(
        self, groups: list[PrefixGroup], done: Set[int] = frozenset()
    ) -> Iterator[list[tuple[int, tuple[Score, ...]]]]:
        """As :meth:`stream_sequences`, for sequences that start alike: what they share is read once.

        Models that do not support trees (see :func:`~workbench.scoring.prefix_tree.support_of`) read the members
        one by one, with the same scores.
        """
        if support_of(self.model).trees:
            yield from self._stream_trees(groups, done)
        else:
            yield from Stream(self.model, _one_by_one, self.batch_tokens, self.progress)(groups, done)

    def _stream_trees(
        self, groups: Sequence_[PrefixGroup], done: Set[int], cache: Any | None = None
    ) -> Iterator[list[tuple[int, tuple[Score, ...]]]]:
        """Equal groups once, in trees of like size. ``cache``: keys and values of what stands before all of them."""
        places: dict[PrefixGroup, list[int]] = defaultdict(list)
        for place, group in enumerate(groups):
            places[group].append(place)
        trees = build_trees(list(places))
        finished = {i for i, tree in enumerate(trees) if all(done >= set(places[g]) for g in tree.groups)}

        def forward(model: LoadedModel, batch: list[PrefixTree]) -> list[tuple[tuple[Score, ...], ...]]:
            return forward_trees(model, batch, cache)

        for batch in Stream(self.model, forward, self.batch_tokens, self.progress)(trees, finished):
            yield [
                (place, scores)
                for i, of_tree in batch
                for group, scores in zip(trees[i].groups, of_tree, strict=True)
                for place in places[group]
            ]

    def stream_shared(
        self, sequences: list[Sequence], done: Set[int] = frozenset()
    ) -> Iterator[list[tuple[int, Score]]]:
        """As :meth:`stream_sequences`, reading once what sequences begin with in common.

        Sequences of one context (the choices of a question) are read as a group; contexts with a long common
        prefix (few-shot prompts) are read after it, from its cached keys and values. The plan depends on the
        sequences alone, so what is computed does not depend on ``done``.
        """
        support = support_of(self.model)
        plan = plan_prefixes(sequences) if support.trees else Plan(tuple(range(len(sequences))), (), ())
        alone = [sequences[place] for place in plan.alone]
        for batch in self.stream_sequences(alone, {i for i, place in enumerate(plan.alone) if place in done}):
            yield [(plan.alone[i], score) for i, score in batch]
        groups, prefixes = list(plan.groups), list(plan.prefixes)
        if not support.cached:
            groups += [group for prefix in prefixes for group in prefix.groups]
            prefixes = []
        together = [PrefixGroup(tuple(sequences[place] for place in group)) for group in groups]
        finished = {i for i, group in enumerate(groups) if done >= set(group)}
        for of_groups in self.stream_groups(together, finished):
            yield [pair for i, scores in of_groups for pair in zip(groups[i], scores, strict=True)]
        for prefix in prefixes:
            yield from self._stream_after(prefix, sequences, done)

    def _stream_after(
        self, prefix: LongPrefix, sequences: list[Sequence], done: Set[int]
    ) -> Iterator[list[tuple[int, Score]]]:
        finished = {i for i, group in enumerate(prefix.groups) if done >= set(group)}
        if len(finished) == len(prefix.groups):
            return
        cache = read_prefix(self.model, prefix.ids)
        groups = [prefix.following(group, sequences) for group in prefix.groups]
        for of_groups in self._stream_trees(groups, finished, cache):
            yield [pair for i, scores in of_groups for pair in zip(prefix.groups[i], scores, strict=True)]

    def score_shared(self, sequences: list[Sequence]) -> list[Score]:
        """All of :meth:`stream_shared`, in the order of ``sequences``."""
        return collect(self.stream_shared(sequences), len(sequences))

    def score(self, requests: Sequence_[Request]) -> list[Score]:
        """All scores, in the order of ``requests``."""
        return collect(self.stream(requests), len(requests))

    def score_sequences(self, sequences: list[Sequence]) -> list[Score]:
        """All scores, in the order of ``sequences``."""
        return collect(self.stream_sequences(sequences), len(sequences))

    def score_groups(self, groups: list[PrefixGroup]) -> list[tuple[Score, ...]]:
        """All scores, in the order of ``groups`` and of their members."""
        return collect(self.stream_groups(groups), len(groups))


def _one_by_one(model: LoadedModel, groups: list[PrefixGroup]) -> list[tuple[Score, ...]]:
    scores = iter(forward_batch(model, [member for group in groups for member in group.members]))
    return [tuple(next(scores) for _ in group.members) for group in groups]


@takes_fields_of(PromptFormat)
def score(
    model: LoadedModel | str,
    requests: str | Request | Sequence_[Request | tuple[str, str]],
    continuation: str | None = None,
    *,
    first_token: str = "auto",
    batch_tokens: str | int = "auto",
    progress: bool = False,
    boundary: str = "joint",
    keep_bos: bool = False,
    **prompt: Any,
) -> Score | list[Score]:
    """Log-probabilities (nats) of continuations given their contexts; see :class:`Engine` and :class:`Seq2SeqEngine`.

    Args:
        model: a causal model or an encoder-decoder, or its name.
        requests: a context, with its ``continuation``; a whole text, without; or requests or pairs of both, for which
            a list is returned.
        continuation: what is scored after the context.
        first_token, boundary, keep_bos: of causal models; see :class:`Engine`.
        batch_tokens: tokens of one forward pass.
        progress: show a bar.
        **prompt: how the model reads the context: fields of :class:`~workbench.text.PromptFormat`.

    Raises:
        ModelError: a model of another kind.
        DataError: nothing to score, or a text that is too long.

    Example:
        ```python
        import workbench

        answer = workbench.score("novels-decoder", "The boys at home", " were")
        print(answer.log_probability, answer.is_greedy)
        ```
    """
    one = isinstance(requests, str | Request)
    listed = [_request(requests, continuation)] if isinstance(requests, str) else requests
    listed = [listed] if isinstance(listed, Request) else listed
    model = as_model(model, **prompt)
    asked = [r if isinstance(r, Request) else Request(*r) for r in listed]
    if model.prompt.chat and not all(r.context.strip() for r in asked):
        raise DataError(WHOLE_TEXT)
    if model.kind is Kind.SEQ2SEQ:
        found = Seq2SeqEngine(model, batch_tokens, progress).score(asked)
    else:
        found = Engine(model, first_token, batch_tokens, progress, boundary, keep_bos).score(asked)
    return found[0] if one else found


def _request(text: str, continuation: str | None) -> Request:
    return Request("", text) if continuation is None else Request(text, continuation)


def windows(
    ids: Sequence_[int], length: int, stride: int, first: int, front: tuple[int, ...] = ()
) -> list[Sequence]:
    """Split ``ids`` so that each id from ``first`` on is scored once.

    Each window reads at most ``length`` ids and scores the last ``stride`` of them (the first window
    scores all it has), so every id but those of the first window sees at least ``length - stride``
    ids before it. ``stride = length`` gives disjoint windows. ``front`` (one id) takes the place of the first id that
    a later window reads.
    """
    if not 1 <= stride <= length:
        raise ConfigError(f"stride is {stride}; allowed: 1 to the window length {length}")
    found = []
    scored = first
    while scored < len(ids):
        take = length if scored == first else stride
        end = min(scored + take, len(ids))
        # A window reads ids[begin : end - 1] and predicts up to ids[end - 1].
        begin = max(0, end - 1 - length)
        kept = front if begin else ()
        found.append(Sequence((*kept, *ids[begin + len(kept) : end]), scored - begin))
        scored = end
    return found


def score_rolling(
    model: LoadedModel,
    texts: Sequence_[str],
    *,
    length: int | None = None,
    stride: int | None = None,
    first_token: str = "auto",
    batch_tokens: str | int = "auto",
    progress: bool = False,
    keep_bos: bool = False,
) -> list[RollingScore]:
    """Log-likelihood of each text. ``length`` defaults to the model's, ``stride`` to ``length`` (disjoint windows).

    The first token is predicted from BOS or the model's prefix token, unless ``first_token`` is
    ``"unscored"``; with ``keep_bos`` it stands in front of every window. Raises :class:`DataError` for a text with no
    token to score.

    Example:
        ```python
        import workbench
        from workbench.scoring import score_rolling

        (found,) = score_rolling(workbench.load("novels-decoder"), ["She was happy. " * 50], length=64)
        print(found.log_probability / found.tokens)
        ```
    """
    engine = Engine(model, first_token, batch_tokens, progress, keep_bos=keep_bos)
    length = min(length or model.max_length, model.max_length)
    return collect(stream_rolling(engine, texts, length, [stride or length] * len(texts)), len(texts))


def stream_rolling(
    engine: Engine,
    texts: Sequence_[str],
    length: int,
    strides: Sequence_[int],
    done: Set[int] = frozenset(),
) -> Iterator[list[tuple[int, RollingScore]]]:
    """``(text, score)`` as soon as all windows of a text are scored; ``strides`` has one for each text."""
    tokenizer = engine.model.tokenizer
    if engine.model.prompt.chat:
        raise DataError("a whole text read in windows is no chat message; leave out --chat")
    front = () if engine.policy is FirstToken.UNSCORED else prefix_ids(tokenizer)
    parts: list[list[Sequence]] = []
    for text, ids, stride in zip(texts, encode_texts(tokenizer, texts), strides, strict=True):
        whole = ids if tuple(ids[: len(front)]) == front else [*front, *ids]
        if len(whole) < 2:
            raise DataError(f"text {text[:40]!r} has no token to score")
        parts.append(windows(whole, length, stride, 1, front if engine.keep_bos else ()))
    for batch in by_group(engine.stream_sequences, parts, done):
        yield [(number, _join(texts[number], scores)) for number, scores in batch]


def _join(text: str, scores: list[Score]) -> RollingScore:
    log_probabilities = tuple(p for score in scores for p in score.token_log_probabilities)
    return RollingScore(
        log_probability=sum(log_probabilities),
        tokens=len(log_probabilities),
        words=len(text.split()),
        bytes=len(text.encode("utf-8")),
        token_log_probabilities=log_probabilities,
    )
