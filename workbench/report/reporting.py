"""The report of stored runs in one call: ``workbench.report``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

from workbench.errors import WorkbenchError
from workbench.evaluate.compare import compare, differences_text, run_differences
from workbench.report._write import write_report
from workbench.runs import Run, as_run

__all__ = ["report"]


def report(*runs: Run | str | Path | Sequence[Run | str | Path], out: Path | str | None = None) -> Path:
    """Write one self-contained HTML page about stored runs, compared where they share a task; returns its path.

    Args:
        *runs: runs, their ids or folders, one by one or in a list.
        out: the file; by default ``report.html`` in the run, for several runs in the current folder.

    Raises:
        RunError: an unknown run, or a place that cannot be written.

    Example:
        ```python
        import workbench

        run = workbench.evaluate("novels-decoder", tasks="lambada_sample", limit=20, doctor=False)
        print(workbench.report(run))
        ```
    """
    listed = [run for one in runs for run in ([one] if isinstance(one, Run | str | Path) else one)]
    opened = [as_run(run) for run in listed]
    several = Path("report.html") if len(opened) > 1 else None
    return write_report(opened, Path(out) if out is not None else several, comparison=_compared(opened))


def _compared(runs: list[Run]) -> list[str]:
    """Verdicts in words on what the runs share; nothing where they share nothing, and why where they cannot."""
    pairs = [
        pair
        for pair in combinations([run for run in runs if run.complete], 2)
        if set(pair[0].results) & set(pair[1].results)
    ]
    lines = []
    for first, second in pairs:
        try:
            found = compare(first, second)
        except WorkbenchError as error:
            lines.append(f"{first.record.id} and {second.record.id}: not compared, {error}")
            continue
        lines += [f"{c.task} {c.metric}, {c.first} and {c.second}: {c.verdict}" for c in found]
        lines.append(" ".join(differences_text(run_differences([first, second]))))
    return lines
