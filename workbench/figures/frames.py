"""Any table as a figure, with a picture of the interval where its rows have one."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from workbench.errors import ConfigError
from workbench.figures._page import page
from workbench.figures._view import View

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["table_view"]

_ROWS = 500  # shown in the page; CSV has all
_STATIC_ROWS = 60  # in SVG, PNG and PDF
_BROKEN = 20  # characters after which a cell of the page goes on in the next line
_WIDEST = 60  # characters of a cell in a static figure


def table_view(
    frame: pd.DataFrame,
    *,
    interval: tuple[str, str, str] | None = None,
    centred: bool = False,
    note: str = "",
    title: str = "Table",
    display_mode: str = "auto",
) -> View:
    """The rows of ``frame``; ``interval`` names columns (value, low, high) drawn as a dot on a line.

    All rows share one scale; ``centred`` gives each its own with zero in the middle, for differences of
    numbers in different units.

    The page has the first 500 rows and a static figure the first 60, which both say; CSV has all.

    Raises:
        ConfigError: a column of ``interval`` is missing.
    """
    missing = [name for name in interval or () if name not in frame.columns]
    if missing:
        raise ConfigError(
            f"the table lacks {', '.join(missing)}; it has {', '.join(map(str, frame.columns))}"
        )
    table = _Table(_without_empty_reasons(frame), interval, centred)
    return View(
        title=title,
        render=lambda: page(title=title, body=table.markup(title, note), display_mode=display_mode),
        draw=lambda: table.draw(title),
        tabulate=frame.copy,
        height=_height(frame, title, note),
    )


def _without_empty_reasons(frame: pd.DataFrame) -> pd.DataFrame:
    """Without the column that says why numbers are undefined, where all are defined."""
    column = "undefined"
    return frame.drop(columns=column) if column in frame and (frame[column] == "").all() else frame


def _height(frame: pd.DataFrame, title: str, note: str) -> int:
    """Pixels that show the rows, or as many as fit 640, also where a narrow screen breaks title, note and cells."""
    lines = [
        max(math.ceil(len(_shown(value)) / _BROKEN) for value in row)
        for row in frame.head(20).itertuples(index=False)
    ]
    rows = sum(12 + 19 * max(1, n) for n in lines) + 31 * max(0, len(frame) - len(lines))
    return min(640, 95 + 27 * math.ceil(len(title) / 30) + 20 * math.ceil(len(note) / 48) + max(31, rows))


@dataclass(frozen=True)
class _Table:
    frame: pd.DataFrame
    interval: tuple[str, str, str] | None
    centred: bool

    @property
    def limits(self) -> tuple[float, float]:
        """Ends of the common scale: 0 to 1 where all lies there, else what the values need."""
        assert self.interval is not None
        values = self.frame[list(self.interval)].to_numpy(float)
        values = values[np.isfinite(values)]
        if values.size == 0 or (values.min() >= 0 and values.max() <= 1):
            return 0.0, 1.0
        return float(values.min()), float(values.max()) if values.max() > values.min() else float(
            values.min()
        ) + 1

    def markup(self, title: str, note: str) -> Markup:
        """The page's body; every cell is escaped."""
        columns = [str(name) for name in self.frame.columns]
        numeric: dict[Hashable, bool] = {
            name: pd.api.types.is_numeric_dtype(self.frame[name]) for name in self.frame.columns
        }
        heads = [
            _cell("th", text, right, ' scope="col"')
            for text, right in zip(columns, numeric.values(), strict=True)
        ]
        if self.interval is not None:
            low, high = self.limits
            ends = "− 0 +" if self.centred else f"{_shown(low)} … {_shown(high)}"
            scale = Markup('<th scope="col">{}</th>').format(ends)
            heads.insert(columns.index(self.interval[0]) + 1, scale)
        rows = Markup("").join(self._row(row, numeric) for row in self.frame.head(_ROWS).to_dict("records"))
        more = f"The first {_ROWS} of {len(self.frame):,} rows." if len(self.frame) > _ROWS else ""
        shape = (
            '<article><h1>{}</h1><p class="quiet">{}</p><div class="table-scroll" tabindex="0"><table>'
            '<thead><tr>{}</tr></thead><tbody>{}</tbody></table></div><p class="quiet">{}</p></article>'
        )
        return Markup(shape).format(title, note, Markup("").join(heads), rows, more)

    def _row(self, row: Mapping[Hashable, Any], numeric: Mapping[Hashable, bool]) -> Markup:
        cells = [_cell("td", _shown(value), numeric[name]) for name, value in row.items()]
        if self.interval is not None:
            picture = self._picture(*(float(row[name]) for name in self.interval))
            cells.insert(list(row).index(self.interval[0]) + 1, Markup("<td>{}</td>").format(picture))
        return Markup("<tr>{}</tr>").format(Markup("").join(cells))

    def _picture(self, value: float, low: float, high: float) -> Markup:
        if not math.isfinite(value):
            return Markup("")
        ends = [end if math.isfinite(end) else value for end in (low, high)]
        reach = max(map(abs, (*ends, value))) or 1.0
        start, stop = (-reach, reach) if self.centred else self.limits
        places = [5 + 210 * (v - start) / (stop - start) for v in (*ends, value)]
        zero = '<line class="baseline" x1="110" x2="110" y1="3" y2="15"/>' if self.centred else ""
        shape = (
            '<svg viewBox="0 0 220 18" aria-hidden="true"><line class="axis" x1="5" x2="215" y1="9" y2="9"/>'
            '<line class="interval" x1="{:.1f}" x2="{:.1f}" y1="9" y2="9"/>'
            '<circle class="estimate" cx="{:.1f}" cy="9" r="4"/>{}</svg>'
        )
        return Markup(shape).format(*places, Markup(zero))

    def draw(self, title: str) -> Figure:
        """The first rows as text in columns."""
        from workbench.figures.static import figure_of

        shown = self.frame.head(_STATIC_ROWS)
        more = (
            f" (the first {_STATIC_ROWS} of {len(self.frame):,} rows)"
            if len(self.frame) > _STATIC_ROWS
            else ""
        )
        cells = [[_short(_shown(v)) for v in row] for row in shown.itertuples(index=False)]
        names = [_short(str(name)) for name in self.frame.columns]
        widths = [max(map(len, column)) + 2 for column in zip(names, *cells, strict=True)]
        figure = figure_of(max(4.0, 0.075 * sum(widths)), 0.9 + 0.24 * len(cells), title + more)
        axes = figure.add_subplot()
        axes.set(xlim=(0, max(1, sum(widths))), ylim=(len(cells) + 0.5, -0.7))
        axes.axis("off")
        for place, row in enumerate([names, *cells]):
            at = 0
            for text, width in zip(row, widths, strict=True):
                weight = "bold" if place == 0 else "normal"
                axes.text(at, place, text, fontsize=8, va="center", weight=weight, parse_math=False)
                at += width
        return figure


def _cell(tag: str, text: str, right: bool, more: str = "") -> Markup:
    wide = len(text) > 12  # long texts wrap, names and numbers do not
    look = (
        ' class="number"'
        if right
        else ' style="white-space:normal;overflow-wrap:anywhere;min-width:9em"'
        if wide
        else ""
    )
    return Markup("<{0}{1}{2}>{3}</{0}>").format(Markup(tag), Markup(more), Markup(look), text)


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}" if math.isfinite(value) else ""
    return "" if value is None or value is pd.NA else str(value)


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _WIDEST else flat[: _WIDEST - 1] + "…"
