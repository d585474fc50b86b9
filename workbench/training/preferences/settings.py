"""The recipe of training on preferences."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from workbench.errors import ConfigError
from workbench.models.parts import check_pooling
from workbench.records import check_fields
from workbench.training.settings import Schedule, check_precision

__all__ = ["LOSSES", "ONLINE", "AlignMethod", "AlignSettings", "LongPrompts"]


class AlignMethod(StrEnum):
    """Ways to learn from preferences or rewards."""

    REWARD = "reward"  # Ouyang et al. 2022: a model with one output, by the Bradley-Terry loss
    DPO = "dpo"  # Rafailov et al. 2023
    KTO = "kto"  # Ethayarajh et al. 2024
    RLOO = "rloo"  # Ahmadian et al. 2024
    GRPO = "grpo"  # Shao et al. 2024


class LongPrompts(StrEnum):
    """What is done with a prompt that leaves no room for a reply."""

    REFUSE = "refuse"
    CUT = "cut"  # its beginning
    DROP = "drop"  # the pair


LOSSES: dict[AlignMethod, tuple[str, ...]] = {
    AlignMethod.REWARD: ("bradley_terry",),
    AlignMethod.DPO: (
        "sigmoid",
        "sigmoid_norm",
        "ipo",
        "hinge",
        "robust",
        "exo_pair",
        "nca_pair",
        "bco_pair",
        "sppo_hard",
        "aot",
        "aot_unpaired",
        "apo_zero",
        "apo_down",
    ),
    AlignMethod.KTO: ("kto", "apo_zero_unpaired"),
    AlignMethod.RLOO: (),
    AlignMethod.GRPO: ("grpo", "dapo", "dr_grpo", "bnpo"),
}
"""The losses that a method offers, its own first; TRL's names."""

ONLINE = (AlignMethod.RLOO, AlignMethod.GRPO)
"""Methods that write replies and learn from their rewards."""

_SMOOTHED = ("robust", "exo_pair", "aot", "aot_unpaired")
_LEARNING_RATES = {
    AlignMethod.REWARD: 1e-5,
    AlignMethod.DPO: 1e-6,
    AlignMethod.KTO: 1e-6,
    AlignMethod.RLOO: 1e-6,
    AlignMethod.GRPO: 1e-6,
}
_POSITIVE = (
    *("epochs", "steps", "batch_size", "lr", "length", "rank", "save_every"),
    *("generations", "max_new_tokens", "temperature", "clip", "iterations", "reward_clip"),
)
_SMALL_MODEL_WEIGHTS = 50_000_000
_SMALL_MODEL_RATES = {AlignMethod.REWARD: 5e-4}
_SMALL_MODEL_RATE, _LORA_FACTOR = 1e-4, 50


@dataclass(frozen=True, kw_only=True)
class AlignSettings:
    """How to train on preferences; ``lr`` left out takes the method's own, ``loss`` the method's first.

    ``beta``: how strongly the policy is held to the reference; of DPO's losses, of KTO, and the weight of the KL term.
    ``steps``: so many updates, whatever ``epochs`` says. ``length``: most tokens of a prompt and its reply, by default
    the model's own limit, at most 1024; longer replies lose their end. ``long_prompts``: what is done with a prompt
    that leaves no room for a reply. ``chat``: prompts are rendered in the model's chat format. ``lora``: train
    low-rank updates of ``rank`` (Hu et al. 2022), merged into the weights at the end, instead of all weights.
    ``label_smoothing``: the share of labels taken to be wrong, of the losses that model it. ``margin``: by how much a
    reward model is asked to prefer the chosen reply (Touvron et al. 2023, "Llama 2", equation 2). ``centring``: weight
    of the squared sum of a pair's rewards, which keeps them around 0 (Eisenstein et al. 2023). ``pooling``: what a
    reward is read from, "first", "last", "mean" or "attention"; without it the model's own way. ``desirable_weight``
    and ``undesirable_weight``: of KTO's two kinds of replies. Of RLOO and GRPO, whose ``batch_size`` counts replies:
    ``generations``, the replies to each prompt; ``max_new_tokens``, the most tokens of a reply; ``temperature``, at
    which they are drawn and scored; ``clip``, by how much the ratio of probabilities may differ from 1 (PPO's ε;
    Schulman et al. 2017); ``iterations``, how often replies are learned from; ``reward_clip``, the largest size of a
    reward. ``save_every``: updates between checkpoints, by default an epoch. ``gradient_checkpointing``: activations
    are computed again in the backward pass: less memory, the same weights.
    """

    method: AlignMethod = AlignMethod.DPO
    loss: str | None = None
    beta: float = 0.1
    epochs: float = 1.0
    steps: int | None = None
    batch_size: int = 16
    lr: float | None = None
    length: int | None = None
    long_prompts: LongPrompts = LongPrompts.REFUSE
    chat: bool = False
    lora: bool = False
    rank: int = 8
    label_smoothing: float = 0.0
    margin: float = 0.0
    centring: float = 0.0
    pooling: str | None = None
    desirable_weight: float = 1.0
    undesirable_weight: float = 1.0
    generations: int = 4
    max_new_tokens: int = 48
    temperature: float = 1.0
    clip: float = 0.2
    iterations: int = 1
    reward_clip: float | None = None
    warmup: float = 0.1
    schedule: Schedule = Schedule.LINEAR
    weight_decay: float = 0.0
    save_every: int | None = None
    gradient_checkpointing: bool = False
    precision: str = "auto"
    seeds: tuple[int, ...] = (0,)

    def __post_init__(self) -> None:
        check_fields(self)
        check_precision(self.precision)
        for name in _POSITIVE:
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ConfigError(f"{name} is {value}; allowed: more than 0")
        for name in ("beta", "margin", "centring", "desirable_weight", "undesirable_weight", "weight_decay"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} is {getattr(self, name)}; allowed: 0 or more")
        if not 0 <= self.warmup < 1:
            raise ConfigError(
                f"warmup is {self.warmup}; allowed: a share of the steps, from 0 to less than 1"
            )
        if self.schedule is Schedule.WSD:
            raise ConfigError("schedule wsd is of workbench train; allowed: linear, cosine, constant")
        if not self.seeds:
            raise ConfigError("no seed given; allowed: one or more numbers, such as 0,1,2")
        self._check_loss()
        if self.method in ONLINE:
            self._check_replies()

    def _check_replies(self) -> None:
        if self.generations < 2:
            raise ConfigError(
                f"generations is {self.generations}; allowed: 2 or more, since replies to a prompt are compared"
            )
        if self.batch_size % self.generations:
            raise ConfigError(
                f"batch_size is {self.batch_size} replies; allowed: a multiple of generations, {self.generations}"
            )

    def _check_loss(self) -> None:
        allowed = LOSSES[self.method]
        if self.loss is not None and self.loss not in allowed:
            offer = f"allowed: {', '.join(allowed)}" if allowed else "it has only one; leave --loss out"
            raise ConfigError(f"method {self.method} has no loss {self.loss!r:.40}; {offer}")
        if not 0 <= self.label_smoothing < 0.5:
            raise ConfigError(
                f"label_smoothing is {self.label_smoothing}; allowed: 0 to less than 0.5, the share of wrong labels"
            )
        if self.label_smoothing and self.loss_type not in _SMOOTHED:
            raise ConfigError(
                f"label_smoothing goes with --loss {', '.join(_SMOOTHED)}, not {self.loss_type}"
            )
        if self.loss_type == "exo_pair" and not self.label_smoothing:
            raise ConfigError("loss exo_pair needs --label-smoothing more than 0; its authors took 0.001")
        if self.method in (AlignMethod.DPO, AlignMethod.KTO) and self.beta == 0:
            raise ConfigError(f"beta is 0, with which {self.method} learns nothing; allowed: more than 0")
        if (self.margin or self.centring or self.pooling) and self.method is not AlignMethod.REWARD:
            raise ConfigError(
                f"margin, centring and pooling are of reward models, not of method {self.method}"
            )
        check_pooling(self.pooling, None)

    @property
    def loss_type(self) -> str:
        """The loss, filled in."""
        return self.loss or next(iter(LOSSES[self.method]), "")

    def learning_rate(self, parameters: int) -> float:
        """The one given, or the method's: higher for LoRA, and for models of under 50 M ``parameters``."""
        if self.lr is not None:
            return self.lr
        if parameters < _SMALL_MODEL_WEIGHTS:
            return _SMALL_MODEL_RATES.get(self.method, _SMALL_MODEL_RATE)
        return _LEARNING_RATES[self.method] * (_LORA_FACTOR if self.lora else 1)

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionary for the run's recipe."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return plain
