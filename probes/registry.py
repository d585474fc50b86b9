"""Probes by name: the fifth thing that users extend, each held to the contract in ``tests/contracts``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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
from workbench.choices import as_members
from workbench.registry import Registry

__all__ = ["PROBES", "ProbeKind", "Reads"]


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
