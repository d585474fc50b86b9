"""What a probing experiment depends on, beside the model: its settings, and the kinds of probe by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from probes.estimators import (
    EdgeProbe,
    LinearProbe,
    MLPProbe,
    NeighbourProbe,
    RidgeProbe,
    ScalarMixProbe,
    StructuralProbe,
)
from probes.features.policy import POOLS, parse_site
from workbench.choices import as_members
from workbench.errors import ConfigError, did_you_mean
from workbench.registry import Registry
from workbench.text import PromptFormat

__all__ = ["PROBES", "SPLITS", "STRENGTHS", "ProbeKind", "ProbeSettings", "Reads"]


class Reads(StrEnum):
    """What a probe's ``fit`` takes: one layer (N, D), all layers (N, L, D), or a list of sentences (W, D)."""

    LAYER = "layer"
    LAYERS = "layers"
    TREES = "trees"


@dataclass(frozen=True)
class ProbeKind:
    """A probe: ``make()`` gives an unfitted estimator; ``linear`` ones cannot find what is not linear."""

    name: str
    about: str
    reads: Reads
    linear: bool
    make: Callable[[], Any]

    def __post_init__(self) -> None:
        as_members(self)


PROBES: Registry[ProbeKind] = Registry("probe")

for _kind in (
    ProbeKind("linear", "multinomial logistic regression", Reads.LAYER, True, LinearProbe),
    ProbeKind("ridge", "ridge regression to one-hot labels", Reads.LAYER, True, RidgeProbe),
    ProbeKind("mlp", "one hidden layer", Reads.LAYER, False, MLPProbe),
    ProbeKind("knn", "nearest neighbours", Reads.LAYER, False, NeighbourProbe),
    ProbeKind("scalar_mix", "linear on a learnt mixture of layers", Reads.LAYERS, True, ScalarMixProbe),
    ProbeKind("edge", "one hidden layer on a learnt mixture of layers", Reads.LAYERS, False, EdgeProbe),
    ProbeKind("structural", "trees as distances in a projection", Reads.TREES, True, StructuralProbe),
):
    PROBES.register(_kind.name, _kind)


STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
SPLITS = ("sentence", "document", "type")


@dataclass(frozen=True, kw_only=True)
class ProbeSettings(PromptFormat):
    """The recipe of an experiment.

    ``data`` is a file in the task's format or ``builtin``; ``train`` a second file to train on, otherwise
    ``test_share`` of the ``data`` is kept for testing, by whole sentences, documents, or word types (no word
    form in both). ``strengths`` are inverse regularisation strengths C, chosen on a tenth of the training
    sentences; the probe is then fitted to all of them.
    In ``chat`` format each sentence is a message, whose words are probed; the template's tokens are not.
    ``seeds`` is how many times the choice of these and the random labels of the control task are drawn.
    """

    task: str
    data: str = "builtin"
    train: str | None = None
    probe: str = "linear"
    layers: tuple[int, ...] | None = None  # None: all
    pool: str = "auto"
    what: str = "residual"
    stack: str | None = None
    split: str = "sentence"
    test_share: float = 0.2
    seeds: int = 3
    strengths: tuple[float, ...] = STRENGTHS
    limit: int | None = None
    random_weights: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_site(self.what)
        if self.pool not in ("auto", *POOLS):
            raise ConfigError(f"unknown pool {self.pool!r}; {did_you_mean(self.pool, ['auto', *POOLS])}")
        if self.stack not in (None, "encoder", "decoder"):
            raise ConfigError(f"stack is {self.stack!r}; allowed: encoder, decoder")
        if self.split not in SPLITS:
            raise ConfigError(f"unknown split {self.split!r}; {did_you_mean(self.split, list(SPLITS))}")
        if not 0 < self.test_share < 1:
            raise ConfigError(f"test_share is {self.test_share}; allowed: between 0 and 1, such as 0.2")
        if self.seeds < 1:
            raise ConfigError(f"seeds is {self.seeds}; allowed: 1 or more")
        if not self.strengths or min(self.strengths) <= 0:
            raise ConfigError(f"strengths are {self.strengths}; allowed: positive numbers such as 0.01,1")

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionary for ``run.json``."""
        return asdict(self)
