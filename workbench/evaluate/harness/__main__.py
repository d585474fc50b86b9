"""``python -m workbench.evaluate.harness`` is lm-eval's own command line, with the model ``workbench`` known."""

from __future__ import annotations

from lm_eval.__main__ import cli_evaluate

import workbench.evaluate.harness  # noqa: F401  registers the model

cli_evaluate()
