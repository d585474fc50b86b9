"""What each layer of a model knows: layer-wise probes, and the controls that make them believable.

The public names below are imported when first used, so ``import probes`` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.rooms import lazy_names

# public name -> module that defines it
_HOMES = {
    "AmnesicReport": "probes.amnesia",
    "EdgeProbe": "probes.estimators",
    "Features": "probes.features",
    "INLPEraser": "probes.estimators",
    "ProbeItem": "probes._data",
    "LeaceEraser": "probes.estimators",
    "LinearProbe": "probes.estimators",
    "MLPProbe": "probes.estimators",
    "NeighbourProbe": "probes.estimators",
    "PROBES": "probes.settings",
    "Place": "probes._data",
    "ProbeData": "probes._data",
    "ProbeReport": "probes.report",
    "ProbeSettings": "probes.settings",
    "RidgeProbe": "probes.estimators",
    "ScalarMixProbe": "probes.estimators",
    "StructuralProbe": "probes.estimators",
    "TASKS": "probes.tasks",
    "Words": "probes._data",
    "amnesic": "probes.amnesia",
    "ChangesSettings": "probes.training_changes",
    "changes": "probes.training_changes",
    "cka_between": "probes.estimators",
    "extract": "probes.features",
    "linear_cka": "probes.estimators",
    "load_task": "probes.tasks",
    "online_code": "probes.estimators",
    "open_report": "probes.run",
    "over_steps": "probes.steps",
    "probe": "probes.experiment",
    "rank_neurons": "probes.estimators",
    "steps_figure": "probes.steps",
    "with_random_weights": "probes.features",
}

__all__ = [
    "PROBES",
    "TASKS",
    "AmnesicReport",
    "ChangesSettings",
    "EdgeProbe",
    "Features",
    "INLPEraser",
    "LeaceEraser",
    "LinearProbe",
    "MLPProbe",
    "NeighbourProbe",
    "Place",
    "ProbeData",
    "ProbeItem",
    "ProbeReport",
    "ProbeSettings",
    "RidgeProbe",
    "ScalarMixProbe",
    "StructuralProbe",
    "Words",
    "amnesic",
    "changes",
    "cka_between",
    "extract",
    "linear_cka",
    "load_task",
    "online_code",
    "open_report",
    "over_steps",
    "probe",
    "rank_neurons",
    "steps_figure",
    "with_random_weights",
]

if TYPE_CHECKING:
    from probes._data import Place, ProbeData, ProbeItem, Words
    from probes.amnesia import AmnesicReport, amnesic
    from probes.estimators import (
        EdgeProbe,
        INLPEraser,
        LeaceEraser,
        LinearProbe,
        MLPProbe,
        NeighbourProbe,
        RidgeProbe,
        ScalarMixProbe,
        StructuralProbe,
        cka_between,
        linear_cka,
        online_code,
        rank_neurons,
    )
    from probes.experiment import probe
    from probes.features import Features, extract, with_random_weights
    from probes.report import ProbeReport
    from probes.run import open_report
    from probes.settings import PROBES, ProbeSettings
    from probes.steps import over_steps, steps_figure
    from probes.tasks import TASKS, load_task
    from probes.training_changes import ChangesSettings, changes

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
