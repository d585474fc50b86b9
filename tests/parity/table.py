"""What the workbench computes for every family against plain forward passes, from each family's default configuration.

``python -m tests.parity.table --write`` puts the table into docs/numerics.md. Without ``--write`` it is printed;
model types after it choose the rows.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

from transformers.utils import logging

from tests.parity import defaults
from tests.parity.columns import COLUMNS
from workbench.errors import WorkbenchError
from workbench.models import Kind, LoadedModel

__all__ = ["NOT_APPLICABLE", "REFUSED", "cells", "model_of"]

NOT_APPLICABLE, REFUSED = "not applicable", "refused: "
_PAGE = Path(__file__).parents[2] / "docs" / "numerics.md"
_BEGIN, _END = "<!-- families: begin -->", "<!-- families: end -->"


def model_of(family: defaults.Architecture) -> LoadedModel:
    """The family's default model with the kind that it would be loaded as."""
    config = defaults.config_of(family)
    network = defaults.build(config, family.auto)
    model = defaults.loaded(network, defaults.KINDS[family.auto], defaults.tokenizer_for(config, family.auto))
    if model.kind is Kind.CAUSAL and model.looks_ahead:
        body = defaults.build(config, "AutoModel")
        return defaults.loaded(body, Kind.ENCODER, model.tokenizer)
    return model


def cells(family: defaults.Architecture) -> Iterator[float | str]:
    """The largest relative difference in each column, or why there is none."""
    model = model_of(family)
    for compare in COLUMNS.values():
        try:
            found = compare(model)
        except WorkbenchError as error:
            yield REFUSED + " ".join(str(error).split())
        else:
            yield NOT_APPLICABLE if found is None else found


def _line(family: defaults.Architecture) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tiny configurations make some families complain
        row = list(cells(family))
    return f"| {family.model_type} | " + " | ".join(map(_written, row)) + " |"


def _written(cell: float | str) -> str:
    if isinstance(cell, str):
        return "–" if cell == NOT_APPLICABLE else cell.replace("|", "/")[:90]
    return "0" if cell == 0 else f"{cell:.0e}"


def main(arguments: Sequence[str]) -> None:
    """Print the table, or write it between the marks of the page."""
    logging.set_verbosity_error()
    chosen = [name for name in arguments if not name.startswith("-")]
    lines = [f"| family | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|"]
    for family in defaults.FAMILIES:
        if not chosen or family.model_type in chosen:
            lines.append(_line(family))
            print(lines[-1], flush=True)
    if "--write" in arguments:
        page = _PAGE.read_text(encoding="utf-8")
        before, rest = page.split(_BEGIN)
        after = rest.split(_END)[1]
        _PAGE.write_text(f"{before}{_BEGIN}\n" + "\n".join(lines) + f"\n{_END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
