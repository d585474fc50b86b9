"""How tokens are chosen when a text is generated: the strategies, their settings, and what does not go together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from workbench.errors import ConfigError
from workbench.records import check_fields

__all__ = ["Decoding", "Strategy", "best_of_kl"]

_CANDIDATES = 4  # of contrastive search, where top_k is left out


class Strategy(StrEnum):
    """Ways to choose tokens."""

    GREEDY = "greedy"
    BEAMS = "beam search"
    SAMPLING = "sampling"
    CONTRASTIVE = "contrastive search"
    BEST_OF = "best of n"


_FIELDS = {
    "beams": Strategy.BEAMS,
    "samples": Strategy.SAMPLING,
    "penalty": Strategy.CONTRASTIVE,
    "best_of": Strategy.BEST_OF,
}


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """How tokens are chosen: greedily, by beam search, sampled, by contrastive search, or the best of several samples.

    ``beams`` above 1 keeps so many beginnings and returns all of them, best first by log-probability per token (as
    transformers ranks them). ``samples`` above 0 draws so many texts instead, from the distribution at
    ``temperature``, of which ``top_k`` keeps the likeliest tokens (0: all) and ``top_p`` those that have this much
    probability together (Holtzman et al. 2020). ``best_of`` above 1 draws so many texts in the same way, and returns
    all of them, best first by a reward (Stiennon et al. 2020).

    ``penalty`` above 0 is contrastive search (Su et al. 2022, equation 5): of the ``top_k`` likeliest tokens (4, if
    left out) the one with the greatest (1 - penalty) × probability - penalty × the largest cosine between its last
    hidden state and those of all tokens before it. Raises :class:`~workbench.errors.ConfigError` for a value out of
    range.
    """

    beams: int = 1
    samples: int = 0
    best_of: int = 0
    penalty: float = 0.0
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        check_fields(self)
        ranges = {
            "beams": (self.beams >= 1, "1 or more"),
            "samples": (self.samples >= 0, "0 or more"),
            "best_of": (self.best_of == 0 or self.best_of > 1, "0, or 2 or more"),
            "penalty": (0 <= self.penalty <= 1, "from 0 to 1"),
            "temperature": (self.temperature > 0, "above 0"),
            "top_k": (self.top_k >= 0, "0 or more"),
            "top_p": (0 < self.top_p <= 1, "above 0 to 1"),
        }
        for name, (fits, allowed) in ranges.items():
            if not fits:
                raise ConfigError(f"{name} is {getattr(self, name)}; allowed: {allowed}")
        self._check_together()

    def _check_together(self) -> None:
        asked = self._asked
        if len(asked) > 1:
            given = " and ".join(f"{name} {getattr(self, name)}" for name in asked)
            raise ConfigError(f"{given} are different strategies; choose one of them")
        if not self.draws and (self.temperature, self.top_p) != (1.0, 1.0):
            raise ConfigError("temperature and top_p are of sampling; give samples, 1 or more, or best_of")
        if self.top_k and not (self.draws or self.penalty):
            raise ConfigError(
                "top_k is of sampling and of contrastive search; give samples, best_of or penalty"
            )
        if self.penalty and self.top_k == 1:
            raise ConfigError("top_k is 1; contrastive search chooses among 2 or more")

    @property
    def _asked(self) -> list[str]:
        return [name for name in _FIELDS if getattr(self, name) > (name == "beams")]

    @property
    def strategy(self) -> Strategy:
        """Which one it is."""
        return next((_FIELDS[name] for name in self._asked), Strategy.GREEDY)

    @property
    def draws(self) -> int:
        """How many texts are sampled."""
        return self.samples or self.best_of

    @property
    def texts(self) -> int:
        """How many texts come out."""
        return max(self.beams, self.draws)

    @property
    def candidates(self) -> int:
        """Among how many tokens contrastive search chooses."""
        return self.top_k or _CANDIDATES

    def arguments(self) -> dict[str, Any]:
        """Those of transformers' ``generate``, which has no contrastive search."""
        found: dict[str, Any] = {
            "num_beams": self.beams,
            "num_return_sequences": self.texts,
            "do_sample": self.draws > 0,
        }
        if self.draws:
            found |= {"temperature": self.temperature, "top_k": self.top_k, "top_p": self.top_p}
        else:
            found |= dict.fromkeys(("temperature", "top_k", "top_p"))
        return found


def best_of_kl(count: int) -> float:
    """Nats by which the best of ``count`` samples is at most away from the distribution that they are drawn from.

    KL(best of n | sampled) is at most log n - (n - 1) / n, whatever the reward, and equal to it where no two samples
    are alike (Stiennon et al. 2020, appendix G.3; Beirami et al. 2024, theorem 1).

    Example:
        ```python
        from workbench.analysis.decoding import best_of_kl

        print([round(best_of_kl(n), 3) for n in (2, 16, 64)])
        ```
    """
    if count < 1:
        raise ConfigError(f"best_of is {count}; allowed: 1 or more")
    return math.log(count) - (count - 1) / count
