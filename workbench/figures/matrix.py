"""Heat maps of labelled numbers, and the statistics of all heads as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from workbench.errors import ConfigError
from workbench.figures._maps import check_length, shown_tokens
from workbench.figures._page import base64_of, page
from workbench.figures._view import View, frame_height
from workbench.shapes import Array
from workbench.statistics import Statistic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from workbench.analysis.head_clusters import HeadClusters

__all__ = ["head_clusters_view", "head_statistics_grid", "heat_map"]


def heat_map(
    values: Array,
    rows: Sequence[str | int] | None = None,
    columns: Sequence[str | int] | None = None,
    *,
    axes: tuple[str, str] = ("row", "column"),
    unit: str = "",
    signed: bool | None = None,
    limits: tuple[float, float] | None = None,
    standard_error: Array | None = None,
    beside: Mapping[str, Sequence[float]] | None = None,
    note: str = "",
    title: str = "Heat map",
    display_mode: str = "auto",
) -> View:
    """A labelled (row, column) matrix; hover or arrow keys read a cell; NaN cells stay empty.

    ``signed`` centres the colours at zero (by default where any value is negative); ``limits`` fixes the
    colours' ends (by default 0 or the minimum, and the maximum). ``beside`` are further columns, a number for each
    row, of units of their own: they are written without colours.

    Raises:
        ConfigError: not two-dimensional, labels or columns that do not fit, or more than 2,048 rows or columns.

    Example:
        ```python
        import numpy as np

        import workbench

        view = workbench.figures.heat_map(np.eye(3), rows=["a", "b", "c"], unit="share")
        print(view.save("map.svg"))
        ```
    """
    matrix = _LabelledMatrix.build(values, rows, columns, axes, unit, standard_error)
    return matrix.with_columns(beside or {}).view(title, note, signed, limits, display_mode, square=False)


def head_statistics_grid(
    statistic: Statistic,
    *,
    signed: bool | None = None,
    limits: tuple[float, float] | None = None,
    title: str | None = None,
    display_mode: str = "auto",
) -> View:
    """One statistic of every head: layers down, heads across, standard errors on hover.

    Raises:
        ConfigError: the statistic's axes are not ``layer`` and ``head``.
    """
    if set(statistic.axes) != {"layer", "head"}:
        raise ConfigError(
            f"{statistic.name}: axes {statistic.axes} must be ('layer', 'head'); select or average"
        )
    turned = statistic.axes != ("layer", "head")
    values, error = statistic.values, statistic.standard_error
    matrix = _LabelledMatrix.build(
        values.T if turned else values,
        statistic.labels.get("layer"),
        statistic.labels.get("head"),
        ("layer", "head"),
        statistic.unit,
        error.T if turned and error is not None else error,
    )
    name = title or statistic.name[:1].upper() + statistic.name[1:]
    return matrix.view(name, statistic.note, signed, limits, display_mode, square=True)


def head_clusters_view(found: HeadClusters, *, title: str | None = None, display_mode: str = "auto") -> View:
    """The divergence between each two heads, those that attend alike side by side, the cluster behind each name."""
    shown = found.order
    names = [f"{layer}-{head} ({found.cluster[n]})" for n in shown for layer, head in [found.heads[n]]]
    return heat_map(
        found.divergence[np.ix_(shown, shown)],
        names,
        names,
        axes=("head", "other head"),
        unit="bits",
        note="Jensen-Shannon divergence between the attention of two heads (layer-head, cluster), mean over queries.",
        title=title or f"Heads of {found.model} that attend alike",
        display_mode=display_mode,
    )


@dataclass(frozen=True)
class _LabelledMatrix:
    values: Array
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    axes: tuple[str, str]
    unit: str
    standard_error: Array | None
    uncoloured: int = 0  # columns at the end, of units of their own

    @classmethod
    def build(
        cls,
        values: Array,
        rows: Sequence[str | int] | None,
        columns: Sequence[str | int] | None,
        axes: tuple[str, str],
        unit: str,
        standard_error: Array | None,
    ) -> _LabelledMatrix:
        """Check shapes and labels; labels are numbers where absent."""
        values = np.asarray(values, dtype=np.float32)
        if values.ndim != 2 or 0 in values.shape:
            raise ConfigError(f"a heat map needs a non-empty (row, column) matrix, got shape {values.shape}")
        check_length(max(values.shape), "heat map")
        names = []
        for what, labels, size in zip(("rows", "columns"), (rows, columns), values.shape, strict=True):
            labels = range(size) if labels is None else labels
            if len(labels) != size:
                raise ConfigError(f"{what}= has {len(labels)} labels for {size} {what}")
            names.append(shown_tokens([str(label) for label in labels], prettify=False))
        if standard_error is not None and standard_error.shape != values.shape:
            raise ConfigError(f"standard_error has shape {standard_error.shape}, the values {values.shape}")
        return cls(values, names[0], names[1], axes, unit, standard_error)

    def with_columns(self, further: Mapping[str, Sequence[float]]) -> _LabelledMatrix:
        """With columns that are not coloured, nor have standard errors."""
        if not further:
            return self
        for name, column in further.items():
            if len(column) != len(self.rows):
                raise ConfigError(f"beside: {name} has {len(column)} values for {len(self.rows)} rows")
        added = np.array(list(further.values()), dtype=np.float32).T
        error = self.standard_error
        return replace(
            self,
            values=np.hstack([self.values, added]),
            columns=(*self.columns, *shown_tokens(list(further), prettify=False)),
            standard_error=None if error is None else np.hstack([error, np.full_like(added, np.nan)]),
            uncoloured=len(further),
        )

    def view(
        self,
        title: str,
        note: str,
        signed: bool | None,
        limits: tuple[float, float] | None,
        display_mode: str,
        square: bool,
    ) -> View:
        """The matrix as a figure; ``square`` cells are those of a grid of heads."""
        low, high = limits or self._limits()
        centred = low < 0 if signed is None else signed
        record = {
            **self._record(),
            **{"low": low, "high": high, "signed": centred, "square": square},
        }
        return View(
            title=title,
            render=lambda: page(
                title=title,
                script="heat",
                parts=("matrix",),
                data={"matrix": record, "note": note},
                display_mode=display_mode,
            ),
            draw=lambda: self._draw(title, low, high, centred),
            tabulate=self._frame,
            height=frame_height(len(self.rows), 44 if square else 34, 250),
        )

    def _limits(self) -> tuple[float, float]:
        coloured = self.values[:, : len(self.columns) - self.uncoloured]
        finite = coloured[np.isfinite(coloured)]
        if finite.size == 0:
            return 0.0, 1.0
        low, high = float(finite.min()), float(finite.max())
        if low < 0:
            limit = max(-low, high)
            return -limit, limit
        return (0.0 if low < 0.5 * high else low), high if high > low else low + 1.0

    def _record(self) -> dict[str, Any]:
        values = np.where(np.isfinite(self.values), self.values, np.nan).astype(np.float32)
        error = self.standard_error
        return {
            "values": base64_of(values),
            "errors": None if error is None else base64_of(error.astype(np.float32)),
            "rows": self.rows,
            "columns": self.columns,
            "axes": self.axes,
            "unit": self.unit,
            "uncoloured": self.uncoloured,
        }

    def _draw(self, title: str, low: float, high: float, signed: bool) -> Figure:
        from workbench.figures._static_attention import MatrixStyle, draw_matrix

        style = MatrixStyle(self.axes, low, high, signed, annotate=True, unit=self.unit)
        return draw_matrix(self.values, self.rows, self.columns, style, title, self.uncoloured)

    def _frame(self) -> pd.DataFrame:
        row, column = (axis.ravel() for axis in np.indices(self.values.shape))
        frame = pd.DataFrame(
            {
                self.axes[0]: np.array(self.rows, dtype=object)[row],
                self.axes[1]: np.array(self.columns, dtype=object)[column],
                "value": self.values.ravel(),
            }
        )
        if self.standard_error is not None:
            frame["standard_error"] = self.standard_error.ravel()
        return frame
