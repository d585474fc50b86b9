"""What training takes from accelerate, or one line that says how to install it."""

from __future__ import annotations

from importlib.util import find_spec

from workbench.errors import ConfigError, needs_extra

if find_spec("accelerate") is None:
    raise ConfigError(needs_extra("training", "accelerate", "train"))

from accelerate import PartialState
from accelerate.utils.memory import should_reduce_batch_size

__all__ = ["PartialState", "should_reduce_batch_size"]
