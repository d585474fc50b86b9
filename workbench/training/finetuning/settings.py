"""The recipe of a fine-tuning run."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from workbench.errors import ConfigError
from workbench.models.parts import check_pooling
from workbench.records import check_fields
from workbench.training.finetuning.methods import LEARNING_RATES, Method
from workbench.training.settings import Schedule, check_precision

__all__ = ["FineSettings"]

_SMALL_MODEL_WEIGHTS = 50_000_000


@dataclass(frozen=True, kw_only=True)
class FineSettings:
    """How to fine-tune; ``lr`` left out takes the method's own.

    ``patience``: stop when the validation metric has not risen for so many epochs, and keep the best weights.
    ``class_weights``: each class counts as if all were equally frequent. ``layers``: only the model's first N.
    ``mixup``: rows are mixed by shares drawn from Beta(mixup, mixup). ``rationale_weight``: of the loss that leads
    attention to the words in the task's rationale column. ``label_smoothing``: share of a label that all classes have
    alike (Szegedy et al. 2016). ``schedule``: of the learning rate after the warm-up, "linear", "cosine" or "constant".
    ``pooling``: what a classifier of texts reads, "first", "last", "mean" or "attention" (Yang et al. 2016), which
    learns ``aspects`` queries, by default one for each label; without it the model's own way.
    ``gradient_checkpointing``: activations are computed again in the backward pass: less memory, the same weights.
    ``packing``: several conversations in one row of up to ``length`` tokens, without attention across them.
    """

    method: Method = Method.FULL
    epochs: float = 3.0
    batch_size: int = 32
    lr: float | None = None
    length: int = 128
    rank: int = 8
    virtual_tokens: int = 20
    layers: int | None = None
    pooling: str | None = None
    aspects: int | None = None
    warmup: float = 0.1
    schedule: Schedule = Schedule.LINEAR
    weight_decay: float = 0.01
    patience: int | None = None
    class_weights: bool = False
    mixup: float = 0.0
    rationale_weight: float = 0.1
    label_smoothing: float = 0.0
    gradient_checkpointing: bool = False
    packing: bool = False
    precision: str = "auto"
    seeds: tuple[int, ...] = (0,)

    def __post_init__(self) -> None:
        check_fields(self)
        check_precision(self.precision)
        for name in ("epochs", "batch_size", "length", "rank", "virtual_tokens"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name} is {getattr(self, name)}; allowed: more than 0")
        check_pooling(self.pooling, self.aspects)
        for name in ("mixup", "rationale_weight"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} is {getattr(self, name)}; allowed: 0 or more")
        if self.schedule is Schedule.WSD:
            raise ConfigError("schedule wsd is of workbench train; allowed: linear, cosine, constant")
        if not 0 <= self.label_smoothing < 1:
            raise ConfigError(f"label_smoothing is {self.label_smoothing}; allowed: from 0 to less than 1")
        if not 0 <= self.warmup < 1:
            raise ConfigError(
                f"warmup is {self.warmup}; allowed: a share of the steps, from 0 to less than 1"
            )
        if not self.seeds:
            raise ConfigError("no seed given; allowed: one or more numbers, such as 0,1,2")

    def learning_rate(self, parameters: int) -> float:
        """The one given, or the method's; full fine-tuning of a model of under 50 M ``parameters`` takes twice as much.

        Small encoders are still undertrained after a few epochs at the rate usual for BERT-base (docs/benchmarks.md).
        """
        if self.lr is not None:
            return self.lr
        rate = LEARNING_RATES[Method(self.method)]
        return 2 * rate if self.method == Method.FULL and parameters < _SMALL_MODEL_WEIGHTS else rate

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionary for the run's recipe."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return plain
