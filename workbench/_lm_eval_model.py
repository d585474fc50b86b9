"""Tells lm-eval that there is a model called ``workbench``, without importing anything heavy.

lm-eval knows only the models listed in its own package, and its command line has no way to name others. PyTorch, which
it imports before it looks a model up, calls the functions that installed packages name under ``torch.backends``: this
one writes the name into lm-eval's registry if lm-eval is what is running, and does nothing in any other program.
``TORCH_DEVICE_BACKEND_AUTOLOAD=0`` turns it off.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module

__all__ = ["announce"]


def announce() -> None:
    """Register ``workbench`` lazily if lm-eval is loaded; never raises, since it runs inside ``import torch``."""
    if "lm_eval" not in sys.modules:
        return
    with suppress(Exception):  # a broken or newer lm-eval must not break PyTorch
        import_module(
            "lm_eval.models"
        )  # its own names first: an empty registry tells it that they are missing
        model_registry = import_module("lm_eval.api.registry").model_registry
        if "workbench" not in model_registry:
            model_registry.register("workbench", target="workbench.evaluate.harness._model:WorkbenchLM")
