"""How likely whole texts are, read in windows."""

from __future__ import annotations

from collections.abc import Iterator, Set

from workbench.errors import DataError
from workbench.evaluate._requests import RollingRequest
from workbench.evaluate.asking._how import How
from workbench.models import Kind, LoadedModel
from workbench.scoring import Engine, FirstToken, RollingScore, Score, encode_texts, prefix_ids
from workbench.scoring.rolling import windows

__all__ = ["ask_passages"]


def ask_passages(
    model: LoadedModel, passages: list[RollingRequest], done: Set[int], how: How
) -> Iterator[list[tuple[int, RollingScore]]]:
    """Each passage's log-likelihood; its first token is predicted from the model's prefix token."""
    model.require(Kind.CAUSAL, verb="perplexity")
    engine = Engine(model, how.first_token, how.batch_tokens, how.progress)
    front = () if engine.policy is FirstToken.UNSCORED else prefix_ids(model.tokenizer)
    parts = []
    for passage, ids in zip(passages, encode_texts(model.tokenizer, [p.text for p in passages]), strict=True):
        whole = ids if tuple(ids[: len(front)]) == front else [*front, *ids]
        if len(whole) < 2:
            raise DataError(f"text {passage.text[:40]!r} has no token to score")
        length = model.max_length
        parts.append(windows(whole, length, min(passage.stride or length, length), 1))
    owners = [number for number, part in enumerate(parts) for _ in part]
    starts = [owners.index(number) for number in range(len(parts))]
    scores: dict[int, Score] = {}
    waiting = [len(part) for part in parts]
    skip = {place for place, number in enumerate(owners) if number in done}
    for batch in engine.stream_sequences([window for part in parts for window in part], skip):
        ready = []
        for place, score in batch:
            scores[place] = score
            waiting[owners[place]] -= 1
            if not waiting[owners[place]]:
                ready.append(owners[place])
        yield [
            (n, _joined(passages[n].text, [scores.pop(starts[n] + k) for k in range(len(parts[n]))]))
            for n in ready
        ]


def _joined(text: str, scores: list[Score]) -> RollingScore:
    log_probabilities = tuple(p for score in scores for p in score.token_log_probabilities)
    return RollingScore(
        log_probability=sum(log_probabilities),
        tokens=len(log_probabilities),
        words=len(text.split()),
        bytes=len(text.encode("utf-8")),
        token_log_probabilities=log_probabilities,
    )
