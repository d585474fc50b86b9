"""Probes as scikit-learn estimators, and what else can be learnt about or removed from features."""

from __future__ import annotations

from probes.estimators.cka import CkaEstimator, cka_between, cka_estimate, linear_cka
from probes.estimators.erasure import INLPEraser, LeaceEraser
from probes.estimators.linear import LinearProbe, NeuronRanking, RidgeProbe, rank_neurons
from probes.estimators.mlp import MLPProbe
from probes.estimators.neighbours import NeighbourProbe
from probes.estimators.online_code import OnlineCode, online_code
from probes.estimators.scalar_mix import EdgeProbe, ScalarMixProbe
from probes.estimators.structural import StructuralProbe, tree_depths, tree_distances, uuas

__all__ = [
    "CkaEstimator",
    "EdgeProbe",
    "INLPEraser",
    "LeaceEraser",
    "LinearProbe",
    "MLPProbe",
    "NeighbourProbe",
    "NeuronRanking",
    "OnlineCode",
    "RidgeProbe",
    "ScalarMixProbe",
    "StructuralProbe",
    "cka_between",
    "cka_estimate",
    "linear_cka",
    "online_code",
    "rank_neurons",
    "tree_depths",
    "tree_distances",
    "uuas",
]
