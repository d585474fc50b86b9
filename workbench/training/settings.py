"""The recipe of a pre-training run: small records that go to YAML and back."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any, TypeVar

import yaml

from workbench.errors import ConfigError, did_you_mean
from workbench.records import check_fields
from workbench.runs.trackers import TRACKERS
from workbench.yaml_reader import parse

__all__ = [
    "DataSource",
    "LoopSettings",
    "ModelSource",
    "ObjectiveChoice",
    "Optimisation",
    "Schedule",
    "TrainSettings",
    "check_precision",
    "parse_steps",
]


READING_ORDER = 2  # counts up when the same recipe comes to read, hide or divide its text in another way


class Schedule(StrEnum):
    """How the learning rate falls after its warm-up."""

    COSINE = "cosine"  # Loshchilov & Hutter 2017, equation 5, one cycle
    WSD = "wsd"  # warm-up, stable, decay by a cosine: Hu et al. 2024, "MiniCPM" (exponential decay)
    INVERSE_SQRT = "inverse_sqrt"  # Vaswani et al. 2017, equation 3, but lr where the warm-up ends
    LINEAR = "linear"
    CONSTANT = "constant"  # from the end of the warm-up on


@dataclass(frozen=True, kw_only=True)
class ModelSource:
    """What is trained: a preset, a YAML configuration, or a model to go on with; ``set`` changes single fields."""

    preset: str | None = None
    config: str | None = None
    model: str | None = None
    set: tuple[str, ...] = ()  # such as "positions.kind=rotary"

    def __post_init__(self) -> None:
        check_fields(self, "model.")
        given = [name for name in ("preset", "config", "model") if getattr(self, name)]
        if len(given) != 1:
            raise ConfigError(
                f"name one of --preset, --config and --model; given: {', '.join(given) or 'none of them'}"
            )


@dataclass(frozen=True, kw_only=True)
class DataSource:
    """What it is trained on. Without ``validation`` the last hundredth of the corpus's characters is held out.

    Of less than 102,400 characters it is 1,024, or a tenth of a shorter text; a tokenizer is trained on the others.

    ``tokenizer`` is a kind to train (``byte-bpe``, ``wordpiece``, …), a folder, or a model's name; ``length`` the
    tokens of a row, at most what the model allows.

    With ``target_column`` corpus and validation are pairs of texts, whose sources are in ``text_column``: a table, or
    two aligned files, as :func:`~workbench.data.pairs.read_pairs` reads them. The last hundredth of the pairs is held
    out then.
    """

    corpus: str
    validation: str | None = None
    tokenizer: str | None = None
    vocab_size: int = 8192
    length: int | None = None
    text_column: str = "text"
    target_column: str | None = None
    isolate_documents: bool = False

    def __post_init__(self) -> None:
        check_fields(self, "data.")
        for name in ("vocab_size", "length"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ConfigError(f"data.{name} is {getattr(self, name)}; allowed: 1 or more")


@dataclass(frozen=True, kw_only=True)
class ObjectiveChoice:
    """What it learns; fields left ``None`` take the objective's own defaults.

    ``window``, ``negatives`` and ``subsample`` are of skip-gram: the farthest neighbour, drawn words for each, and the
    share of the corpus above which occurrences of a word are left out.
    """

    name: str = "clm"
    rate: float | None = None
    mean_span: float | None = None
    static: bool = False
    noise: tuple[str, ...] = ()
    teacher: str | None = None
    temperature: float = 2.0
    window: int | None = None
    negatives: int | None = None
    subsample: float | None = None

    def __post_init__(self) -> None:
        check_fields(self, "objective.")
        of_words = (self.window, self.negatives, self.subsample)
        if self.name != "skip-gram" and any(value is not None for value in of_words):
            raise ConfigError(
                f"window, negatives and subsample go with --objective skip-gram, not with {self.name}; leave them out"
            )


@dataclass(frozen=True, kw_only=True)
class Optimisation:
    """AdamW's settings and the budget; ``warmup`` and ``decay`` are shares of ``steps``."""

    steps: int = 1000
    batch_size: int = 16  # rows of one step, over all processes
    lr: float = 1e-3
    schedule: Schedule = Schedule.COSINE
    warmup: float = 0.05
    decay: float = 0.2
    weight_decay: float = 0.1
    clip: float = 1.0
    beta2: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        check_fields(self, "optimisation.")
        for name in ("steps", "batch_size"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; allowed: 1 or more")
        for name in ("warmup", "decay"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ConfigError(
                    f"{name} is {getattr(self, name)}; allowed: from 0 to 1, a share of the steps"
                )
        if self.schedule == Schedule.WSD and self.warmup + self.decay > 1.0:
            raise ConfigError(
                f"warmup {self.warmup} and decay {self.decay} are more than all steps; allowed: at most 1 together"
            )
        if self.lr <= 0:
            raise ConfigError(f"lr is {self.lr}; allowed: more than 0, such as 1e-3")


PRECISIONS = ("auto", "float32", "bfloat16")


def check_precision(name: str) -> None:
    """Raise :class:`~workbench.errors.ConfigError` for an unknown precision."""
    if name not in PRECISIONS:
        raise ConfigError(f"unknown precision {name!r}; {did_you_mean(name, list(PRECISIONS))}")


@dataclass(frozen=True, kw_only=True)
class LoopSettings:
    """What does not change the result: precision aside, how the work is divided and what is written when.

    ``micro_batch`` is the rows of one forward pass; the rest of a step's rows come by gradient accumulation.
    ``minutes`` ends training by the clock, and the schedule with it; such a run cannot be repeated exactly.
    """

    precision: str = "auto"
    micro_batch: int | None = None
    compile: bool = False
    log_every: int = 10
    eval_every: int | None = None
    save_every: int | None = None
    keep_steps: tuple[int, ...] = ()
    minutes: float | None = None
    report_to: tuple[str, ...] = ("tensorboard",)

    def __post_init__(self) -> None:
        check_fields(self, "loop.")
        check_precision(self.precision)
        for name in self.report_to:
            if name not in (*TRACKERS, "none", ""):
                raise ConfigError(f"cannot report to {name!r}; allowed: {', '.join(TRACKERS)}, none")
        for name in ("micro_batch", "log_every", "eval_every", "save_every"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ConfigError(f"loop.{name} is {getattr(self, name)}; allowed: 1 or more")
        if self.minutes is not None and self.minutes <= 0:
            raise ConfigError(f"loop.minutes is {self.minutes}; allowed: more than 0")


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """A whole recipe."""

    model: ModelSource
    data: DataSource
    objective: ObjectiveChoice = field(default_factory=ObjectiveChoice)
    optimisation: Optimisation = field(default_factory=Optimisation)
    loop: LoopSettings = field(default_factory=LoopSettings)

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries and lists."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return plain

    def to_yaml(self) -> str:
        """The recipe as YAML; :meth:`from_yaml` reads it."""
        return yaml.safe_dump(self.to_dict(), sort_keys=False)

    @classmethod
    def from_dict(cls, values: Any, file: str = "the recipe") -> TrainSettings:
        """The inverse of :meth:`to_dict`; anything else raises :class:`~workbench.errors.ConfigError`."""
        if not isinstance(values, Mapping):
            raise ConfigError(f"{file} must be a mapping with model, data, …; it is {values!r:.40}")
        parts = {
            "model": ModelSource,
            "data": DataSource,
            "objective": ObjectiveChoice,
            "optimisation": Optimisation,
            "loop": LoopSettings,
        }
        for name in values:
            if name not in parts:
                raise ConfigError(
                    f"unknown part {name!r} of a recipe; {did_you_mean(str(name), list(parts))}"
                )
        for name in ("model", "data"):
            if name not in values:
                raise ConfigError(f"a recipe lacks {name}; it needs model and data")
        return cls(**{name: _record(parts[name], name, content) for name, content in values.items()})

    @classmethod
    def from_yaml(cls, text: str, file: str = "the recipe") -> TrainSettings:
        """Read a recipe; raises :class:`~workbench.errors.ConfigError` for anything else, naming ``file``."""
        return cls.from_dict(parse(text, file), file)

    def digest(self, *content: str) -> str:
        """SHA-256 over what decides the weights, and over ``content`` (hashes of corpus and tokenizer)."""
        plain = {**self.to_dict(), "order": READING_ORDER}
        plain["loop"] = {"precision": self.loop.precision}
        for path in ("corpus", "validation", "tokenizer"):
            plain["data"].pop(path)
        return hashlib.sha256(json.dumps([plain, *content], sort_keys=True).encode()).hexdigest()


Record = TypeVar("Record")


def _record(kind: type[Record], name: str, content: Any) -> Record:
    if not isinstance(content, Mapping):
        raise ConfigError(f"{name} is {content!r:.40}; a recipe needs a mapping there")
    known = [f.name for f in fields(kind)]  # type: ignore[arg-type]
    for key in content:
        if key not in known:
            raise ConfigError(f"unknown field {name}.{key}; {did_you_mean(str(key), known)}")
    values = {key: tuple(v) if isinstance(v, list) else v for key, v in content.items()}
    for needed in fields(kind):  # type: ignore[arg-type]
        if needed.default is dataclasses.MISSING and needed.name not in values:
            raise ConfigError(f"{name} lacks {needed.name}; add it to the recipe")
    return kind(**values)


def parse_steps(text: str, total: int) -> tuple[int, ...]:
    """``0,1,2,4,…,1000`` or ``0,1,2,4,...`` as steps: dots go on doubling, up to ``total``.

    Raises :class:`~workbench.errors.ConfigError` for anything but numbers.
    """
    steps: list[int] = []
    for word in (part.strip() for part in text.split(",")):
        if word in {"…", "..."}:
            while 0 < steps[-1] * 2 <= total if steps else False:
                steps.append(steps[-1] * 2)
            steps.append(total)
        elif word.isdigit():
            steps.append(int(word))
        elif word:
            raise ConfigError(
                f"keep-steps has {word!r}; allowed: numbers separated by commas, and … to go on doubling"
            )
    return tuple(sorted({step for step in steps if step <= total}))
