"""The bridge to lm-eval: our engine as one of its models, and its tasks as tasks of ours.

``python -m workbench.evaluate.harness --model workbench --model_args pretrained=smollm2-135m --tasks ...`` is lm-eval's
own command line, with the model registered; a program imports this module first.
"""

from __future__ import annotations

from importlib.util import find_spec

from workbench.errors import ConfigError, needs_extra

if find_spec("lm_eval") is None:
    raise ConfigError(needs_extra("the bridge", "lm-eval", "harness"))

from workbench.evaluate.harness._model import WorkbenchLM
from workbench.evaluate.harness._task import HarnessTask, harness_task

__all__ = ["HarnessTask", "WorkbenchLM", "harness_task"]
