"""Wherever an estimate is printed or exported, what is undefined is said with its reason."""

from __future__ import annotations

import html
import json
import math
from pathlib import Path

import pandas as pd
import pytest

from challenge_sets.tables import groups_table
from workbench.cli._compare_views import leaderboards
from workbench.cli._shared import run_summary
from workbench.cli._tables import groups_text, results_table
from workbench.dashboard.challenge_page import groups_frame
from workbench.dashboard.runs_page import results_table as page_table
from workbench.figures.frames import table_view
from workbench.report import model_card, render_report, render_table
from workbench.runs import Run, RunFolder, RunRecord
from workbench.statistics import Estimate
from workbench.terminal import say_json

UNDEFINED = {
    "value": Estimate.without_interval(math.nan, 4, "every prediction is 1", method="percentile bootstrap"),
    "interval": Estimate.without_interval(12.5, 1, "one item has no spread", method="percentile bootstrap"),
}


@pytest.mark.parametrize("part", UNDEFINED)
def test_every_printed_form_says_what_is_undefined_and_why(tmp_path: Path, part: str) -> None:
    """The tables of the command line, of comparisons and checks, reports, cards, exports and pages."""
    estimate = UNDEFINED[part]
    reason = f"undefined ({estimate.undefined})"
    model = {"name": "m", "parameters": 1, "dtype": "float32", "revision": None, "content_hash": "x"}
    folder = RunFolder.create(
        tmp_path,
        RunRecord.new("evaluate", recipe={"tasks": ["t"]}, model=model, data={}, seeds={}, device="cpu"),
    )
    folder.finish({"t": {"matthews": estimate}}, {})
    run = Run.open(folder.path)
    page = render_report([run])
    texts = {
        "evaluate": results_table(run.results),
        "leaderboard": leaderboards([run], task=None, metric=None, seed=0).text,
        "check": groups_text(groups_table(run)),
        "report": html.unescape(page),
        "card": model_card("m", [run]),
        "md": render_table([run], "md"),
        "latex": render_table([run], "latex"),
    }
    for name, text in texts.items():
        assert reason in text, name
        assert " nan" not in text, name
    parts = [
        json.dumps(run_summary(run), allow_nan=False),
        render_table([run], "json"),
        render_table([run], "csv"),
        json.dumps(leaderboards([run], task=None, metric=None, seed=0).record, allow_nan=False),
        page_table(run).to_csv(),
        groups_frame(run).to_csv(),
    ]
    for text in parts:
        assert estimate.undefined in text


def test_the_table_of_dependency_heads_says_what_is_undefined(tmp_path: Path) -> None:
    """A head that is as good as the fixed offset in every sentence: the gain has no spread."""
    from workbench.cli._survey_text import _dependency_table
    from workbench.figures.stored import survey_figures

    alike = Estimate(value=0.0, standard_error=0.0, low=0.0, high=0.0, n=9)
    share = Estimate(value=0.4, standard_error=0.1, low=0.2, high=0.6, n=9)
    best = {"layer": 1, "head": 0, "direction": "head to dependent", "offset": 1, "words": 50}
    folder = RunFolder.create(
        tmp_path, RunRecord.new("attend", recipe={}, model={"name": "m"}, data={}, seeds={}, device="cpu")
    )
    results = {"c/dependency": {"det": share}, "c/fixed offset": {"det": alike}, "c/gain": {"det": alike}}
    folder.finish(results, {}, {"best heads": {"det": best}})
    run = Run.open(folder.path)
    assert "+0.000, interval undefined (the values have no spread)" in _dependency_table(run)
    assert "0.400 [0.200, 0.600]" in _dependency_table(run)
    assert "nan" not in survey_figures(run)["dependency heads"].html.lower()


def test_what_is_printed_as_json_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    """RFC 8259 has no NaN and no Infinity; most readers but Python's refuse them."""
    say_json({"p": math.nan, "rows": [{"high": math.inf}, (1.5, -math.inf)]})

    def refuse(name: str) -> None:
        raise AssertionError(name)

    printed = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert printed == {"p": None, "rows": [{"high": None}, [1.5, None]]}


def test_pages_have_a_column_of_reasons_only_where_there_is_one(tmp_path: Path) -> None:
    defined = Estimate(value=0.5, standard_error=0.1, low=0.3, high=0.7, n=9)
    frames = [
        pd.DataFrame([{"value": e.value, "low": e.low, "high": e.high, "undefined": e.undefined or ""}])
        for e in (defined, UNDEFINED["interval"])
    ]
    pages = [table_view(frame, interval=("value", "low", "high")).html for frame in frames]
    assert ["one item has no spread" in page for page in pages] == [False, True]
    assert [">undefined<" in page for page in pages] == [False, True]
