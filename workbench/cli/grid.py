"""``workbench grid``: many models on many tasks."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workbench.cli._shared import COUNT, PATH
from workbench.paths import check_folder
from workbench.terminal import say, say_json

if TYPE_CHECKING:
    from workbench.evaluate.grid import CellResult

__all__ = ["command"]


@click.command("grid")
@click.argument("file", type=PATH)
@click.option("--out", type=PATH, help="Folder of the runs (default: runs/ and FILE's name).")
@click.option("--engine", default="local", show_default=True, help="local, or ray.")
@click.option("--workers", type=COUNT, default=2, show_default=True, help="Processes that Ray starts here.")
@click.option("--address", help="A running Ray cluster: auto, or HOST:PORT; all machines must reach --out.")
@click.option("--device", help="Of models without a device of their own: auto, cpu, cuda, cuda:N or mps.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def command(
    file: Path,
    out: Path | None,
    engine: str,
    workers: int,
    address: str | None,
    device: str | None,
    as_json: bool,
) -> None:
    """Run every model of FILE (YAML: models, tasks, settings) on every task, one run folder a cell.

    \b
    models: [smollm2-135m, {name: smollm2-135m, dtype: bfloat16, device: cuda}]
    tasks: [piqa, arc_easy]
    data_dir: ../shared/data/multiple_choice
    limit: 100
    device: cpu

    Called again, it skips cells that are finished and goes on with interrupted ones.
    """
    from workbench.evaluate.grid import read_grid, run_grid, summary
    from workbench.runs import default_root

    folder = check_folder(out or default_root() / file.stem)
    grid = read_grid(file, device=device)
    results = run_grid(grid, folder, engine=engine, workers=workers, address=address, tell=_tell)
    frame = summary(results)
    if as_json:
        rows = json.loads(frame.to_json(orient="records"))
        say_json({"out": str(folder), "rows": rows})
    else:
        say(_table(frame))
        for result in results:
            if result.problem:
                say(f"failed: {result.cell.model.name} on {result.cell.task}: {result.problem}")
        say(f"\n{len(results)} cells; table in {folder / 'summary.csv'}")
        if any(result.run for result in results):
            say(f"next: workbench compare --leaderboard --root {shlex.quote(str(folder))}")
    if any(result.problem for result in results):
        sys.exit(1)


def _tell(result: CellResult) -> None:
    what = result.problem or f"done, {result.run}"
    say(f"{result.cell.model.name} on {result.cell.task}: {what}", error=True)


def _table(frame: Any) -> str:
    from workbench.cli._tables import table
    from workbench.estimate import printed

    rows: list[tuple[str | None, ...]] = []
    for row in frame.to_dict(orient="records"):
        if isinstance(row["problem"], str) and row["problem"]:
            # the problem itself is printed below the table
            rows.append((row["model"], row["dtype"], row["device"], row["task"], None, None, None, None))
            continue
        value, low, high = printed(row["value"], row["low"], row["high"], row["undefined"])
        numbers = (value, f"{low} to {high}" if high else low, str(int(row["n"])))
        rows.append((row["model"], row["dtype"], row["device"], row["task"], row["metric"], *numbers))
    return table(("model", "dtype", "device", "task", "metric", "value", "95 %", "n"), rows)
