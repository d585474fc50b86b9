"""What training takes from accelerate, or one line that says how to install it."""

from __future__ import annotations

from importlib.util import find_spec

from workbench.errors import ConfigError

if find_spec("accelerate") is None:
    raise ConfigError("training needs accelerate: pip install 'transformer-workbench[train]'")

from accelerate import PartialState
from accelerate.utils.memory import should_reduce_batch_size

__all__ = ["PartialState", "should_reduce_batch_size"]
