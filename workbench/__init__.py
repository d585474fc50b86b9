"""A workbench to evaluate transformer language models and look inside them.

``import workbench`` gives what a notebook types. The names below, and the rooms (``workbench.figures``, …), are
imported when first used, so that the import itself costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.drawn import find_drawings_in
from workbench.rooms import lazy_names

__version__ = "0.1.0"

# public name -> module that defines it, with the name it has there where that is another
_HOMES = {
    "Estimate": "workbench.statistics",
    "Kind": "workbench.models",
    "LoadedModel": "workbench.models",
    "Statistic": "workbench.statistics",
    "WorkbenchError": "workbench.errors",
    "align": "workbench.training.preferences.aligning",
    "attribute": "workbench.analysis.saliency",
    "capture": "workbench.trace",
    "changes": "probes.training_changes",
    "check": "challenge_sets",
    "compare": "workbench.evaluate.compare",
    "doctor": "workbench.evaluate.doctor:examine",
    "finetune": "workbench.training.finetuning",
    "generate": "workbench.scoring.generation",
    "judge": "workbench.evaluate.judge",
    "lens": "workbench.analysis.lens",
    "load": "workbench.models",
    "patch": "workbench.analysis.patching",
    "probe": "probes",
    "score": "workbench.scoring",
    "surprisal": "workbench.scoring",
    "wrap": "workbench.models",
}
# packages that are attributes of this one; those with a verb's name are called as that verb
_ROOMS = (
    "analysis",
    "data",
    "errors",
    "evaluate",
    "figures",
    "models",
    "nn",
    "report",
    "runs",
    "scoring",
    "statistics",
    "text",
    "trace",
    "training",
)

__all__ = [
    "Estimate",
    "Kind",
    "LoadedModel",
    "Statistic",
    "WorkbenchError",
    "__version__",
    "align",
    "attribute",
    "capture",
    "changes",
    "check",
    "compare",
    "doctor",
    "evaluate",
    "finetune",
    "generate",
    "judge",
    "lens",
    "load",
    "patch",
    "probe",
    "report",
    "score",
    "surprisal",
    "trace",
    "wrap",
]

if TYPE_CHECKING:
    from workbench.analysis.lens import lens
    from workbench.analysis.patching.patch import patch
    from workbench.analysis.saliency import attribute
    from workbench.errors import WorkbenchError
    from workbench.evaluate.compare import compare
    from workbench.evaluate.doctor import examine as doctor
    from workbench.evaluate.judge import judge
    from workbench.models import Kind, LoadedModel, load, wrap
    from workbench.scoring import score
    from workbench.scoring.generation import generate
    from workbench.scoring.surprisal import surprisal
    from workbench.statistics import Estimate, Statistic
    from workbench.trace.capture import capture
    from workbench.training.finetuning.finetune import finetune
    from workbench.training.preferences.aligning import align

__getattr__, __dir__ = lazy_names(__name__, _HOMES, _ROOMS)
find_drawings_in(lambda: __getattr__("figures"))
