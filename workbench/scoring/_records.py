"""What is asked of the engine and what it answers."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Request", "RollingScore", "Score", "Sequence"]


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
    truncated: int = 0  # ids cut off on the left
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
    ``ranks[i]`` counts from 1. ``truncated`` tokens of the context were cut off on the left. With ``inside_token`` the
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
