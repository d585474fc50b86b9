"""The dependency table: each relation's best head beside the best fixed offset."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from workbench.errors import ConfigError
from workbench.figures._page import page
from workbench.figures._view import View

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["COLUMNS", "dependency_table"]

COLUMNS = ("relation", "layer", "head", "accuracy", "low", "high", "baseline", "offset", "count")
"""What the table reads: accuracies and interval ends lie in 0..1, ``offset`` is the baseline's."""


def dependency_table(
    table: pd.DataFrame,
    *,
    note: str = "",
    title: str = "Dependency relations and their best heads",
    display_mode: str = "auto",
) -> View:
    """One row per relation: best head, its accuracy with interval, and the best fixed-offset baseline.

    ``table`` has the columns of :data:`COLUMNS`; further ones are saved as CSV but not drawn. A dot with
    a bar is the head's accuracy and interval, a tick the baseline.

    Raises:
        ConfigError: a column is missing or the table is empty.
    """
    missing = [name for name in COLUMNS if name not in table.columns]
    if missing:
        raise ConfigError(f"dependency table lacks {', '.join(missing)}; it needs {', '.join(COLUMNS)}")
    if table.empty:
        raise ConfigError(
            "dependency table is empty; no relation occurred often enough, lower the minimum count"
        )
    return View(
        title=title,
        render=lambda: page(title=title, body=_markup(table, title, note), display_mode=display_mode),
        draw=lambda: _draw(table, title),
        tabulate=table.copy,
        height=min(760, 150 + 30 * len(table)),
    )


_NUMERIC = ("accuracy", "baseline", "offset", "n")
_NUMBER = Markup(' class="number"')


def _markup(table: pd.DataFrame, title: str, note: str) -> Markup:
    headings = ("relation", "head", "accuracy", "0 … 1", "95 % interval", "baseline", "offset", "n")
    head = Markup("").join(
        Markup('<th scope="col"{}>{}</th>').format(_NUMBER if text in _NUMERIC else "", text)
        for text in headings
    )
    rows = Markup("").join(_row(row) for row in table[list(COLUMNS)].to_dict("records"))
    key = "● best head with its interval · vertical tick: best fixed offset"
    shape = (
        '<article><h1>{}</h1><p class="quiet">{}</p><div class="table-scroll" tabindex="0"><table><thead><tr>{}</tr>'
        '</thead><tbody>{}</tbody></table></div><p class="quiet">{}</p></article>'
    )
    return Markup(shape).format(title, note, head, rows, key)


_PLACED = ("low", "high", "baseline", "accuracy")


def _row(row: Mapping[Hashable, Any]) -> Markup:
    shape = (
        '<tr><th scope="row">{relation}</th><td>{layer}-{head}</td><td class="number">{accuracy:.3f}</td>'
        '<td>{picture}</td><td>{interval}</td><td class="number">{baseline:.3f}</td>'
        '<td class="number">{offset}</td><td class="number">{count:,}</td></tr>'
    )
    picture = (
        '<svg viewBox="0 0 220 18" aria-hidden="true"><line class="axis" x1="5" x2="215" y1="9" y2="9"/>'
        '<line class="interval" x1="{low:.1f}" x2="{high:.1f}" y1="9" y2="9"/>'
        '<line class="baseline" x1="{baseline:.1f}" x2="{baseline:.1f}" y1="3" y2="15"/>'
        '<circle class="estimate" cx="{accuracy:.1f}" cy="9" r="4"/></svg>'
    )
    fields: dict[str, Any] = {str(name): value for name, value in row.items()}
    defined = math.isfinite(fields["low"]) and math.isfinite(fields["high"])
    fields["interval"] = f"{row['low']:.3f} to {row['high']:.3f}" if defined else "undefined"
    ends = {name: row[name] if defined else row["accuracy"] for name in ("low", "high")}
    places = {n: 5 + 210 * float(v) for n, v in {**fields, **ends}.items() if n in _PLACED}
    fields["offset"] = f"{int(row['offset']):+d}" if row["offset"] else "0"
    fields["count"] = int(row["count"])
    return Markup(shape).format(**fields, picture=Markup(picture).format(**places))


def _draw(table: pd.DataFrame, title: str) -> Figure:
    from workbench.figures.static import figure_of

    figure = figure_of(7.5, 1.3 + 0.24 * len(table), title)
    axes = figure.add_subplot()
    rows = np.arange(len(table))
    spread = np.abs(table[["low", "high"]].to_numpy(float).T - table["accuracy"].to_numpy(float))
    axes.errorbar(table["accuracy"], rows, xerr=spread, fmt="o", color="#0072B2", label="best head")
    axes.plot(table["baseline"], rows, "|", color="#D55E00", markersize=11, mew=2, label="best fixed offset")
    names = [f"{row.relation}  {row.layer}-{row.head}" for row in table.itertuples()]
    axes.set_yticks(rows, labels=names, parse_math=False)
    axes.set(xlim=(0, 1), ylim=(len(table) - 0.5, -0.5), xlabel="accuracy")
    axes.grid(axis="x", color="#d5dbe1", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure
