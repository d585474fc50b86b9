"""A ``workbench`` command that imports before its arguments are known, and then reads them as a line of JSON."""

from __future__ import annotations

import json
import sys
from importlib import import_module

from workbench.cli import main

# What commands with a model need, which is most of the time that they take to start.
_NEEDED = (
    "torch",
    "transformers.models.auto.modeling_auto",
    "transformers.models.bert.modeling_bert",
    "transformers.models.llama.modeling_llama",
    "challenge_sets.suite",
    "workbench.evaluate.doctor",
    "workbench.scoring",
)

if __name__ == "__main__":
    for name in _NEEDED:
        import_module(name)
    line = sys.stdin.readline()
    if line:  # it ends unasked with the dashboard
        main(json.loads(line))
