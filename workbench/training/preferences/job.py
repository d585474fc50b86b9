"""What a method gets to make its trainer from, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from workbench.estimate import Estimate
from workbench.scoring import Reward
from workbench.training._seeds import SeedJob
from workbench.training.preferences.encoding import Encoder
from workbench.training.preferences.pairs import PreferenceRows
from workbench.training.preferences.settings import AlignSettings
from workbench.training.progress import Meter

__all__ = ["AlignJob", "Measured", "PreparedTrainer", "Subject"]


@dataclass(frozen=True)
class AlignJob(SeedJob):
    """One seed's work: the model's name, the pairs, the recipe, and where it is done.

    ``reference`` is the name of the model that the policy is held to, by default the policy as it was; ``reward`` what
    scores replies in the methods that write their own, ``gold_reward`` what scores them beside it, only to be logged.
    """

    rows: PreferenceRows
    settings: AlignSettings
    reference: str | None = None
    reward: Reward | None = None
    gold_reward: Reward | None = None


@dataclass(frozen=True)
class Subject:
    """The model to train, on its device and before LoRA, with its tokenizer.

    ``fresh`` names weights that were drawn at random, ``pad`` is the id to pad with, ``rows`` how many rows go through
    the model at once, ``meter`` counts tokens.
    """

    model: Any
    tokenizer: Any
    fresh: tuple[str, ...]
    pad: int
    length: int
    rows: int
    meter: Meter = field(default_factory=Meter)

    @property
    def parameters(self) -> int:
        """How many weights it has."""
        return sum(p.numel() for p in self.model.parameters())

    def encoder(self, settings: AlignSettings) -> Encoder:
        """Makes token ids of pairs for this model."""
        return Encoder(self.tokenizer, settings, self.length)


@dataclass(frozen=True)
class Measured:
    """Held-out results: metrics, a row for each example with its scores, and remarks."""

    metrics: dict[str, Estimate]
    rows: tuple[dict[str, Any], ...]
    notes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PreparedTrainer:
    """A trainer that has not begun, and how the model that it trains is measured."""

    trainer: Any
    measure: Callable[[Any], Measured]
