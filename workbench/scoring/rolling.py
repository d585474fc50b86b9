"""Log-likelihood of whole texts, longer than the model if need be, in windows with a stated stride."""

from __future__ import annotations

from collections.abc import Iterator, Set
from collections.abc import Sequence as Sequence_

from workbench.errors import ConfigError, DataError
from workbench.models import LoadedModel
from workbench.scoring._encode import FirstToken, encode_texts, prefix_ids
from workbench.scoring._records import RollingScore, Score, Sequence
from workbench.scoring._stream import by_group, collect
from workbench.scoring.engine import Engine

__all__ = ["score_rolling", "stream_rolling", "windows"]


def windows(ids: Sequence_[int], length: int, stride: int, first: int) -> list[Sequence]:
    """Split ``ids`` so that each id from ``first`` on is scored once.

    Each window reads at most ``length`` ids and scores the last ``stride`` of them (the first window
    scores all it has), so every id but those of the first window sees at least ``length - stride``
    ids before it. ``stride = length`` gives disjoint windows.
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
        found.append(Sequence(tuple(ids[begin:end]), scored - begin))
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
) -> list[RollingScore]:
    """Log-likelihood of each text. ``length`` defaults to the model's, ``stride`` to ``length`` (disjoint windows).

    The first token is predicted from BOS or the model's prefix token, unless ``first_token`` is
    ``"unscored"``. Raises :class:`DataError` for a text with no token to score.
    """
    engine = Engine(model, first_token, batch_tokens, progress)
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
    front = () if engine.policy is FirstToken.UNSCORED else prefix_ids(tokenizer)
    parts: list[list[Sequence]] = []
    for text, ids, stride in zip(texts, encode_texts(tokenizer, texts), strides, strict=True):
        whole = ids if tuple(ids[: len(front)]) == front else [*front, *ids]
        if len(whole) < 2:
            raise DataError(f"text {text[:40]!r} has no token to score")
        parts.append(windows(whole, length, stride, 1))
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
