"""What the verbs that look inside one text share: loading in float32, writing a figure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.errors import WorkbenchError
from workbench.paths import check_folder, check_output

if TYPE_CHECKING:
    from workbench.figures import View
    from workbench.models import LoadedModel

__all__ = ["FIGURES", "check_figure", "check_runs", "load_named", "saved"]

FIGURES = (".csv", ".html", ".pdf", ".png", ".svg")
"""Endings of files that a figure can be written to."""


def check_figure(out: Path | None, *further: str) -> None:
    """Raise :class:`WorkbenchError` where no figure can be written: before a model is loaded, not after."""
    if out is not None:
        check_output(out, (*FIGURES, *further))


def check_runs(out: Path | None) -> None:
    """Raise :class:`WorkbenchError` where no run can be stored."""
    from workbench.runs import default_root

    check_folder(out or default_root())


def load_named(name: str, options: dict[str, Any]) -> LoadedModel:
    """The model of the options of :func:`~workbench.cli._options.model_options`."""
    from workbench.models import load

    chosen = {key: options[key] for key in ("revision", "dtype", "device", "implementation")}
    return load(name, **chosen)


def saved(view: View, out: Path) -> Path:
    """The path that the figure was written to; raises :class:`WorkbenchError` where it cannot be."""
    try:
        return view.save(out)
    except OSError as error:
        raise WorkbenchError(f"cannot write {out}: {error.strerror or error}; name another --out") from error
