"""What training on preferences takes from TRL, or one line that says how to install it; TRL in silence."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from workbench.errors import ConfigError, needs_extra
from workbench.pretrained import quiet

for _name in ("trl", "datasets", "peft"):
    if find_spec(_name) is None:
        raise ConfigError(needs_extra("training on preferences", _name, "align"))

__all__ = ["dataset_of", "silent"]


def dataset_of(rows: list[dict[str, Any]]) -> Any:
    """Rows as a data set of the library ``datasets``, in memory."""
    from datasets import Dataset

    return Dataset.from_list(rows)


@contextmanager
def silent() -> Iterator[None]:
    """No logs below errors, no progress bars and no warnings of transformers, TRL and datasets; restored afterwards."""
    from datasets.utils import logging

    shows_bars, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    with quiet(), warnings.catch_warnings():
        for module in ("trl", "transformers", "peft", "datasets", "torch"):
            warnings.filterwarnings("ignore", module=rf"{module}(\.|$)")
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        try:
            yield
        finally:
            logging.set_verbosity(level)
            if shows_bars:
                logging.enable_progress_bar()
