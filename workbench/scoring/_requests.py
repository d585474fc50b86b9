"""What is asked of the engine, its token ids, and what it answers."""

from __future__ import annotations

from collections.abc import Sequence as Sequence_
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import pandas as pd

from workbench.characters import check_text
from workbench.choices import member
from workbench.errors import DataError, ModelError, TooLong
from workbench.models import LoadedModel
from workbench.text import render, rendered_ids

__all__ = [
    "WHOLE_TEXT",
    "Boundary",
    "FirstToken",
    "Request",
    "RollingScore",
    "Score",
    "Sequence",
    "chat_ids",
    "encode_requests",
    "encode_texts",
    "leading_bos",
    "prefix_ids",
    "resolve_first_token",
]

WHOLE_TEXT = "a whole text, without context, has no message to write in chat format; leave out --chat"


@dataclass(frozen=True)
class Request:
    """How likely is ``continuation`` after ``context``? An empty context asks about a whole text."""

    context: str
    continuation: str


@dataclass(frozen=True)
class Sequence:
    """Token ids of which those from ``start`` on are scored, each given all ids before it (``start`` >= 1)."""

    ids: tuple[int, ...]
    start: int
    truncated: int = 0  # ids left out on the left
    inside_token: bool = False  # the context's last token goes on into the continuation

    @property
    def targets(self) -> int:
        """Number of scored tokens."""
        return len(self.ids) - self.start

    @property
    def length(self) -> int:
        """Tokens that the model reads: the last one is only predicted."""
        return len(self.ids) - 1


@dataclass(frozen=True)
class Score:
    """Log-probabilities (nats) of the scored tokens of one request.

    ``greedy_ids[i]`` is the most likely token where ``token_ids[i]`` stood, given the true tokens before it;
    ``ranks[i]`` counts from 1. ``truncated`` tokens of the context were left out on the left. With ``inside_token`` the
    text has a token with the end of the context and the beginning of the continuation, so not all of the
    continuation is scored.
    """

    token_ids: tuple[int, ...]
    token_log_probabilities: tuple[float, ...]
    greedy_ids: tuple[int, ...]
    ranks: tuple[int, ...]
    truncated: int = 0
    inside_token: bool = False

    @property
    def log_probability(self) -> float:
        """Sum over the scored tokens, in nats."""
        return sum(self.token_log_probabilities)

    @property
    def is_greedy(self) -> bool:
        """Whether greedy decoding from the context would have produced exactly these tokens."""
        return self.token_ids == self.greedy_ids

    @property
    def tokens(self) -> int:
        """Number of scored tokens."""
        return len(self.token_ids)

    def to_frame(self) -> pd.DataFrame:
        """One row a scored token: its id, log-probability and rank, and the likeliest token's id."""
        return pd.DataFrame(
            {
                "token_id": self.token_ids,
                "log_probability": self.token_log_probabilities,
                "rank": self.ranks,
                "greedy_id": self.greedy_ids,
            }
        )


@dataclass(frozen=True)
class RollingScore:
    """Log-likelihood of a whole text read in windows.

    ``log_probability`` (nats) sums over ``tokens`` scored tokens; ``words`` (by white space) and ``bytes``
    (UTF-8) are the other two units a perplexity is given in.
    """

    log_probability: float
    tokens: int
    words: int
    bytes: int
    token_log_probabilities: tuple[float, ...]


class FirstToken(StrEnum):
    """What the first token of a text is predicted from.

    ``BOS``: one BOS stands before every request, with or without context.
    ``PREFIX``: BOS, or EOS for tokenizers without one, stands before requests without context only.
    ``UNSCORED``: nothing is added, and the first token of a request without context is not scored.
    ``AUTO``: ``BOS`` for tokenizers that add a BOS themselves (Llama 2 and 3, Gemma), else ``PREFIX``.
    """

    AUTO = "auto"
    BOS = "bos"
    PREFIX = "prefix"
    UNSCORED = "unscored"


class Boundary(StrEnum):
    """How the tokens of a context and its continuation are told apart.

    ``JOINT``: both are encoded as one text, and what is behind as many tokens as the context alone has is scored
    (lm-eval's rule). A continuation that begins inside a token ("hello wor" + "ld!") loses its beginning.
    ``SEPARATE``: each is encoded by itself, and all of the continuation's tokens are scored; where tokenizers put a
    space before every text (Llama 2, T5) the continuation begins a word.

    In chat format the continuation stands behind the generation prompt. A line break that ends it is scored
    with the continuation by ``JOINT``, as lm-eval does, and belongs to the context by ``SEPARATE``.
    """

    JOINT = "joint"
    SEPARATE = "separate"


def resolve_first_token(model: LoadedModel, policy: str | FirstToken = FirstToken.AUTO) -> FirstToken:
    """The policy that ``auto`` stands for with this model; others are checked against its tokenizer.

    In chat format it is ``prefix``, which adds nothing: there always is a context, which begins as the template says.
    """
    tokenizer = model.tokenizer
    policy = member(FirstToken, policy, "first-token policy", ModelError)
    bos = tokenizer.bos_token_id
    if policy is FirstToken.AUTO:
        adds_bos = bos is not None and not model.prompt.chat and tokenizer("a").input_ids[:1] == [bos]
        return FirstToken.BOS if adds_bos else FirstToken.PREFIX
    if policy is FirstToken.BOS and bos is None:
        raise ModelError(
            "first-token policy 'bos' needs a tokenizer with a BOS token; use 'prefix' or 'unscored'"
        )
    return policy


def prefix_ids(tokenizer: Any) -> tuple[int, ...]:
    """The id that stands in front of a text: BOS, or EOS for tokenizers without BOS."""
    for token in (tokenizer.bos_token_id, tokenizer.eos_token_id):
        if token is not None:
            return (int(token),)
    raise ModelError("the tokenizer has neither BOS nor EOS; use the first-token policy 'unscored'")


def encode_requests(
    model: LoadedModel,
    requests: Sequence_[Request],
    policy: FirstToken,
    boundary: Boundary = Boundary.JOINT,
    keep_bos: bool = False,
) -> list[Sequence]:
    """Token ids of context and continuation, and where the scored part starts; see :class:`Boundary`.

    White space at the end of a context moves to the continuation first, since tokenizers join it with
    the word that follows. This is the boundary rule of lm-eval, so scores are comparable. A context that is too long
    loses its beginning, as there, or with ``keep_bos`` what follows the BOS (or prefix token) at its beginning.
    """
    encode = _in_chat if model.prompt.chat else _as_texts
    contexts, wholes = encode(model, requests, boundary)
    return [
        _sequence(model, request, context, whole, policy, keep_bos)
        for request, context, whole in zip(requests, contexts, wholes, strict=True)
    ]


_Ids = list[list[int]]


def _as_texts(model: LoadedModel, requests: Sequence_[Request], boundary: Boundary) -> tuple[_Ids, _Ids]:
    """Ids of each context, and of context and continuation."""
    pairs = [_move_space(request) for request in requests]
    contexts = encode_texts(model.tokenizer, [context for context, _ in pairs])
    if boundary is Boundary.JOINT:
        return contexts, encode_texts(model.tokenizer, [context + rest for context, rest in pairs])
    own = encode_texts(model.tokenizer, [continuation for _, continuation in pairs])
    return contexts, [[*context, *ids] for context, ids in zip(contexts, own, strict=True)]


def _in_chat(model: LoadedModel, requests: Sequence_[Request], boundary: Boundary) -> tuple[_Ids, _Ids]:
    """As :func:`_as_texts`, each context as a message in the model's chat template: an empty one, as lm-eval does."""
    tokenizer, contexts, wholes = model.tokenizer, [], []
    messages = {r.context: render(tokenizer, r.context, model.prompt.system) for r in requests}
    for request in requests:
        message = messages[request.context]
        check_text(request.continuation, f"text {request.continuation[:40]!r}")
        if boundary is Boundary.JOINT:
            contexts.append(list(rendered_ids(replace(message, text=message.text.rstrip()), tokenizer)))
            wholes.append(list(rendered_ids(message.followed_by(request.continuation), tokenizer)))
        else:
            contexts.append(list(rendered_ids(message, tokenizer)))
            (own,) = encode_texts(tokenizer, [request.continuation])
            wholes.append([*contexts[-1], *own])
    return contexts, wholes


def chat_ids(model: LoadedModel, context: str) -> tuple[int, ...]:
    """Ids of ``context`` in the model's chat template; raises :class:`DataError` for an empty one."""
    if not context.strip():
        raise DataError(WHOLE_TEXT)
    return rendered_ids(render(model.tokenizer, context, model.prompt.system), model.tokenizer)


def _move_space(request: Request) -> tuple[str, str]:
    context = request.context.rstrip()
    return context, request.context[len(context) :] + request.continuation


def encode_texts(tokenizer: Any, texts: Sequence_[str]) -> list[list[int]]:
    """Token ids of each text without special tokens; raises :class:`DataError` for lone surrogates."""
    for text in texts:
        check_text(text, f"text {text[:40]!r}")
    if not texts:
        return []
    ids: list[list[int]] = tokenizer(list(texts), add_special_tokens=False, verbose=False).input_ids
    return ids


def _sequence(
    model: LoadedModel,
    request: Request,
    context: list[int],
    whole: list[int],
    policy: FirstToken,
    keep_bos: bool,
) -> Sequence:
    front = _front(model.tokenizer, context, whole, policy)
    ids = (*front, *whole)
    # An unscored first token leaves nothing in front of it: the second is the first that is scored.
    start = max(len(front) + len(context), 1)
    if start >= len(ids):
        raise DataError(
            f"nothing to score in continuation {request.continuation[:40]!r} after {context[-3:]}"
        )
    # The model reads all ids but the last.
    surplus = max(len(ids) - 1 - model.max_length, 0)
    if surplus >= start:
        raise TooLong(
            f"continuation {request.continuation[:40]!r}... has {len(ids) - start} tokens; "
            f"{model.name} reads at most {model.max_length}; score it as a whole text instead"
        )
    inside = whole[: len(context)] != context
    kept = leading_bos(model.tokenizer, ids) if keep_bos and surplus else ()
    return Sequence(
        (*kept, *ids[surplus + len(kept) :]), start - surplus, truncated=surplus, inside_token=inside
    )


def leading_bos(tokenizer: Any, ids: Sequence_[int]) -> tuple[int, ...]:
    """The BOS (or prefix token) that ``ids`` begin with; empty where they begin otherwise."""
    first = tuple(ids[:1])
    return first if first in {(tokenizer.bos_token_id,), (tokenizer.eos_token_id,)} else ()


def _front(tokenizer: Any, context: list[int], whole: list[int], policy: FirstToken) -> tuple[int, ...]:
    wanted = policy is FirstToken.BOS or (policy is FirstToken.PREFIX and not context)
    if not wanted:
        return ()
    front = prefix_ids(tokenizer)
    # A chat template may have written the BOS into the text already: it stands there once.
    return () if context and tuple(whole[: len(front)]) == front else front
