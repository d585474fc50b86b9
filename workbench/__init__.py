"""A workbench to evaluate transformer language models and look inside them.

The public names below are imported when first used, so ``import workbench`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# public name -> module that defines it
_HOMES = {
    "Estimate": "workbench.statistics",
    "Kind": "workbench.models",
    "LoadedModel": "workbench.models",
    "Statistic": "workbench.statistics",
    "WorkbenchError": "workbench.errors",
    "attribute": "workbench.analysis.saliency",
    "load": "workbench.models",
    "trace": "workbench.trace",
}

__all__ = [
    "Estimate",
    "Kind",
    "LoadedModel",
    "Statistic",
    "WorkbenchError",
    "__version__",
    "attribute",
    "load",
    "trace",
]

if TYPE_CHECKING:
    from workbench.analysis.saliency import attribute
    from workbench.errors import WorkbenchError
    from workbench.models import Kind, LoadedModel, load
    from workbench.statistics import Estimate, Statistic


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'workbench' has no attribute {name!r}")
    home = import_module(_HOMES[name])
    # a room that can be called has the name of its main function: workbench.trace
    value = home if home.__name__ == f"workbench.{name}" else getattr(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
