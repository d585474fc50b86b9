"""The bridge to lm-eval: our engine as one of its models, and its tasks as tasks of ours.

``lm_eval --model workbench --model_args pretrained=smollm2-135m --tasks ...`` finds the model by itself once both
packages are installed; in a program, import this module first. ``python -m workbench.evaluate.harness`` takes the
same arguments as ``lm_eval``.
"""

from __future__ import annotations

from importlib.util import find_spec

from workbench.errors import ConfigError, needs_extra

if find_spec("lm_eval") is None:
    raise ConfigError(needs_extra("the bridge", "lm-eval", "harness"))

from workbench.evaluate.harness._model import WorkbenchLM
from workbench.evaluate.harness._task import HarnessTask, harness_task

__all__ = ["HarnessTask", "WorkbenchLM", "harness_task"]
