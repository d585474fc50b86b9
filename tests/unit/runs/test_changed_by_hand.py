"""Run files of the right schema and a wrong shape: whatever reads a run says so in one line."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from challenge_sets import check
from challenge_sets.tables import groups_table, suite_table
from probes.run import open_report, read_inputs, run_probe
from probes.settings import ProbeSettings
from tests.unit.tiny import tiny_causal
from workbench.analysis.survey import SurveySettings, survey
from workbench.cli import main
from workbench.cli._survey_text import survey_text
from workbench.dashboard.collect import over_steps
from workbench.errors import RunError, WorkbenchError
from workbench.evaluate import EvaluateSettings, evaluate
from workbench.evaluate.compare import compare, run_differences
from workbench.figures.stored import survey_figures
from workbench.report import render_report, render_table
from workbench.runs import Run, list_runs, shape_checked

CHANGES = 120
VALUES: tuple[Any, ...] = (None, "text", -3, 2.5, True, [], {}, [1], {"a": {"b": 1}}, "gone")


def _readers(path: Path, other: Path) -> Iterator[Callable[[], Any]]:
    """All that reads stored runs, beside the verbs that write them."""
    yield lambda: list_runs(path.parent)
    yield lambda: over_steps(list_runs(path.parent))
    yield from (lambda form=form: render_table([Run.open(path)], form) for form in ("json", "latex"))
    yield lambda: compare([Run.open(path), Run.open(other)])
    yield lambda: run_differences([Run.open(path), Run.open(other)])
    yield lambda: (suite_table(Run.open(path)), groups_table(Run.open(path)))
    yield lambda: open_report(Run.open(path))
    yield lambda: survey_figures(Run.open(path))
    if Run.open(path).record.verb == "attend":
        yield lambda: survey_text(Run.open(path))
    else:  # a report of a survey draws survey_figures, each as a picture, which takes seconds
        yield lambda: render_report(Run.open(path))


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in steps:
        yield from _places(inner, (*path, key))


def _changed(content: Any, place: tuple[Any, ...], value: Any) -> Any:
    changed = copy.deepcopy(content)
    inner = changed
    for key in place[:-1]:
        inner = inner[key]
    if value == "gone":
        del inner[place[-1]]
    else:
        inner[place[-1]] = value
    return changed


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of each verb whose readers look into its notes."""
    root, model = tmp_path_factory.mktemp("runs"), tiny_causal(2048)
    settings = EvaluateSettings(tasks=("lambada_sample",), limit=4)
    text = root / "text.txt"
    text.write_text("the cat sat on the mat\na dogs ran to the cabinet\n" * 3)
    table = root / "table.tsv"
    table.write_text(
        "text\tlabel\n" + "".join(f"the cat {'sat' if k % 2 else 'ran'}\t{k % 2}\n" for k in range(40))
    )
    probe = ProbeSettings(task="table", data=str(table), probe="linear")
    return {
        "evaluate": evaluate(model, settings, out=root / "evaluate", doctor=False).path,
        "check": check(
            model,
            "sentiment",
            limit=4,
            out=root / "check",
            doctor=False,
        ).path,
        "attend": survey(model, SurveySettings(corpus=str(text)), out=root / "attend").path,
        "probe": run_probe(model, probe, read_inputs(probe), out=root / "probe").path,
    }


def test_a_wrong_shape_is_one_line_for_every_reader(runs: dict[str, Path]) -> None:
    """Seeded changes of one value, its checksum removed, as by a careful hand; anything but one line fails."""
    draw, refused = random.Random(0), 0
    for _ in range(CHANGES):
        path = runs[draw.choice(sorted(runs))]
        file = path / draw.choice(["run.json", "results.json", "results.json"])
        original = file.read_bytes()
        content = json.loads(original)
        del content["checksum"]
        place, value = draw.choice(list(_places(content))), draw.choice(VALUES)
        file.write_text(json.dumps(_changed(content, place, value)))
        try:
            readers = [lambda: Run.open(path)]  # noqa: B023
            with suppress(RunError):
                readers = list(_readers(path, path))
            for read in readers:
                try:
                    read()
                except WorkbenchError as error:
                    refused += "\n" not in str(error)
                except Exception as error:
                    pytest.fail(f"{file.name} {place} = {value!r}: {type(error).__name__}: {error}")
        finally:
            file.write_bytes(original)
    assert refused > CHANGES


def test_a_defect_of_a_reader_stays_what_it_is(runs: dict[str, Path]) -> None:
    """Only a run that is not as it was written takes the blame."""
    with pytest.raises(KeyError), shape_checked(Run.open(runs["evaluate"])):
        raise KeyError("a defect")


@pytest.mark.parametrize("verb", ["evaluate", "check", "probe"])
def test_resuming_with_a_changed_recipe(
    runs: dict[str, Path], verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = json.loads((runs[verb] / "run.json").read_text())
    del content["checksum"]
    for broken in ({**content, "recipe": {}}, {**content, "model": {}}):
        (tmp_path / "run.json").write_text(json.dumps(broken))
        with pytest.raises(SystemExit) as stopped:
            main([verb, "--resume", str(tmp_path)])
        assert stopped.value.code == 2
        assert capsys.readouterr().err.count("\n") == 1
