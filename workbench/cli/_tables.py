"""Plain text tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from workbench.characters import neutral
from workbench.estimate import Estimate
from workbench.text.escape import display_width

__all__ = ["doctor_table", "results_table", "table"]


def table(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Columns padded to their widest cell; numbers to the right."""
    head = list(header)
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(display_width(row[i]) for row in [head, *cells]) for i in range(len(head))]
    right = [all(_is_number(row[i]) for row in cells) and bool(cells) for i in range(len(head))]

    def line(row: list[str]) -> str:
        gaps = (" " * (w - display_width(c)) for c, w in zip(row, widths, strict=True))
        padded = (g + c if r else c + g for c, g, r in zip(row, gaps, right, strict=True))
        return "  ".join(padded).rstrip()

    return "\n".join([line(head), "  ".join("-" * w for w in widths), *map(line, cells)])


def results_table(results: Mapping[str, Mapping[str, Estimate]]) -> str:
    """One row per task and metric: value, standard error, interval, number of items; what is undefined, and why."""
    rows = [
        (task, metric, *e.cells(), str(e.n))
        for task, metrics in results.items()
        for metric, e in metrics.items()
    ]
    return table(("task", "metric", "value", "std. error", "95 % low", "95 % high", "n"), rows)


def doctor_table(checks: Iterable[Mapping[str, Any]]) -> str:
    """One row per numeric check: status, the value seen, the tolerance, what was compared."""
    columns = ("name", "status", "value", "tolerance", "detail")
    rows = ([_short(check[column]) for column in columns] for check in checks)
    return table(("check", *columns[1:]), rows)


def _short(value: object) -> object:
    return f"{value:.3g}" if isinstance(value, float) else value


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else neutral(str(value))


def _is_number(text: str) -> bool:
    return (
        text in {"-", "nan", "inf"}
        or text.replace(",", "").replace(".", "", 1).lstrip("-").split("e")[0].isdigit()
    )
