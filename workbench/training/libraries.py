"""What training takes from accelerate, or one line that says how to install it; and transformers made silent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from transformers.utils import logging

from workbench.errors import ConfigError, needs_extra

if find_spec("accelerate") is None:
    raise ConfigError(needs_extra("training", "accelerate", "train"))

from accelerate import PartialState
from accelerate.utils.memory import should_reduce_batch_size

__all__ = ["PartialState", "quiet", "should_reduce_batch_size"]


@contextmanager
def quiet() -> Iterator[None]:
    """Only errors from transformers' own log, and no bars; restored afterwards."""
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
