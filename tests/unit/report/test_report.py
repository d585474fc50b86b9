from __future__ import annotations

import base64
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from workbench.errors import DataError, RunError
from workbench.figures.lambada import log_probability_by_length
from workbench.report import render_report, write_report
from workbench.report._sections import clip_left, flatten, measured, number, visible
from workbench.runs import Run, RunFolder, RunRecord
from workbench.statistics import Estimate

HOSTILE = "</style><script>alert(1)</script><img src=x onerror=alert(2)>\"'&{{ 7*7 }}\x00\x1b[2J\u202e\ud800"
DOCTOR = {
    "verdict": "warn",
    "checks": [
        {"name": "batch 1 = batch N", "status": "pass", "value": 2e-6, "tolerance": 1e-4, "detail": ""},
        {"name": HOSTILE, "status": "warn", "value": HOSTILE, "tolerance": None, "detail": HOSTILE},
    ],
}


class _Tags(HTMLParser):
    """Collects elements, attributes and text as a browser would see them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text += data


def _rows(count: int) -> list[dict[str, object]]:
    return [
        {
            "id": f"toy-{k}",
            "task": "toy",
            "text": f"passage number {k} ends in target{k}",
            "target": f" target{k}",
            "predicted": " guess",
            "log_probability": -float(k),
            "tokens": 1 + k % 3,
            "greedy": k < 5,
            "rank": k,
        }
        for k in range(count)
    ]


def _run(root, rows, *, doctor=None, results=None, recipe=None, finish=True) -> Run:
    record = RunRecord.new("evaluate", recipe=recipe or {}, model={"name": "tiny"}, data={}, seeds={"s": 0})
    folder = RunFolder.create(root, record)
    folder.append(rows)
    if doctor:
        folder.set_doctor(doctor)
    if finish:
        accuracy = Estimate(value=0.25, standard_error=0.01, low=0.2, high=0.3, n=len(rows))
        folder.finish(results or {"toy": {"accuracy": accuracy}}, {"tokens_per_second": 1234.0})
    return Run.open(folder.path)


def test_shows_results_extremes_doctor_and_recipe(tmp_path):
    run = _run(tmp_path, _rows(60), doctor=DOCTOR, recipe={"limit": 60, "nested": {"dtype": "float32"}})
    path = write_report(run)
    assert path == run.path / "report.html"
    assert (run.path / "figures" / "log_probability_by_length.svg").read_bytes().startswith(b"<svg")
    page = _Tags(path.read_text())
    for text in (
        "0.2500",
        "0.2000 to 0.3000",
        "percentile bootstrap",
        "nested.dtype",
        "float32",
        "1,234",
        "warn",
    ):
        assert text in page.text
    shown = re.findall(r"toy-(\d+)", page.text)
    # 20 worst (log-probability -59 to -40), then 20 best (0 to -19).
    assert [int(k) for k in shown] == [*range(59, 39, -1), *range(20)]
    assert page.tags.count("svg") == 1
    assert "<mark>target59</mark>" in path.read_text()


def test_needs_no_other_file(tmp_path):
    page = write_report(_run(tmp_path, _rows(60))).read_text()
    parsed = _Tags(page)
    assert not {"script", "link", "iframe", "object", "base"} & set(parsed.tags)
    outside = [
        v
        for name, v in parsed.attributes
        if name in {"src", "href", "xlink:href", "srcset", "data"} and not v.startswith(("#", "data:"))
    ]
    assert outside == []
    assert not re.search(r"url\((?!#)|@import", page)


def test_hostile_text_is_shown_and_never_markup(tmp_path):
    rows = [{**row, "text": HOSTILE + str(row["text"]), "predicted": HOSTILE} for row in _rows(4)]
    rows[0] |= {"target": HOSTILE, "text": "context " + HOSTILE, "id": HOSTILE}
    estimate = Estimate(value=1, standard_error=0, low=1, high=1, n=1, method=HOSTILE)
    run = _run(
        tmp_path, rows, doctor=DOCTOR, results={HOSTILE: {HOSTILE: estimate}}, recipe={HOSTILE: HOSTILE}
    )
    run = replace(run, record=replace(run.record, model={"name": HOSTILE, HOSTILE: HOSTILE}, verb=HOSTILE))
    page = render_report(run)
    parsed = _Tags(page)
    assert "script" not in parsed.tags
    assert "img" not in parsed.tags
    assert parsed.tags.count("style") == 2  # the page's and the figure's
    assert not [name for name, _ in parsed.attributes if name.startswith("on")]
    assert "<script>alert(1)</script>" in parsed.text
    assert "{{ 7*7 }}" in parsed.text
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\ud800-\udfff]", page)
    page.encode()


def test_unfinished_runs_and_runs_without_doctor_say_so(tmp_path):
    text = _Tags(render_report(_run(tmp_path, _rows(3), finish=False))).text
    assert "This run is unfinished: 3 examples" in text
    assert "numeric self-check was not run" in text
    assert "Results" not in text


def test_runs_of_other_verbs_show_their_first_examples(tmp_path):
    rows = [{"id": f"{k:02}", "layer": k, "score": 0.5, "words": ["a", "<b>"]} for k in range(30)]
    parsed = _Tags(render_report(_run(tmp_path, rows)))
    assert "svg" not in parsed.tags
    assert "The first 20 of 30." in parsed.text
    assert "<b>" in parsed.text


def test_runs_without_examples_have_a_report(tmp_path):
    assert "0.2500" in render_report(_run(tmp_path, []))


def test_missing_values_in_the_columns_are_dashes(tmp_path):
    rows = _rows(4)
    rows[1] |= {"rank": None, "greedy": None, "predicted": None, "log_probability": None}
    rows[3] |= {"rank": None, "greedy": None, "predicted": None}  # the worst
    page = render_report(_run(tmp_path, rows))
    assert "The extremes of 3 passages" in page
    assert re.findall(r'<td class="num">([^<]*)</td>', page)[-6:] == ["-3.000", "1", "–", "-0.000", "1", "0"]


def test_out_may_be_any_file_but_no_folder(tmp_path):
    run = _run(tmp_path / "runs", _rows(3))
    assert write_report(run, tmp_path / "my.html") == tmp_path / "my.html"
    assert not (run.path / "figures").exists()
    with pytest.raises(RunError, match="is a folder; give a file name"):
        write_report(run, tmp_path)
    with pytest.raises(RunError, match=r"cannot write .*: No such file or directory; make the folder first"):
        write_report(run, tmp_path / "none" / "my.html")


def test_figure_puts_points_at_their_length_and_medians_at_their_value():
    frame = pd.DataFrame(
        {"log_probability": [-1.0, -2.0, -6.0, -4.0], "tokens": [1, 1, 1, 12], "greedy": [1, 0, 0, 1]}
    )
    (axes,) = log_probability_by_length(frame).axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1\nn = 3", "≥8\nn = 1"]
    right, wrong = (np.asarray(points.get_offsets()) for points in axes.collections[:2])
    assert sorted(right[:, 1]) == [-4.0, -1.0]
    assert sorted(wrong[:, 1]) == [-6.0, -2.0]
    assert np.all(np.abs(wrong[:, 0] - 1) < 0.4)
    medians = [line.get_ydata()[0] for line in axes.lines if line.get_linewidth() == 2.2]
    assert medians == [-2.0, -4.0]


def test_figure_of_nothing_is_refused():
    with pytest.raises(DataError, match="needs columns"):
        log_probability_by_length(pd.DataFrame({"tokens": [1]}))
    with pytest.raises(DataError, match="no example with a finite"):
        log_probability_by_length(pd.DataFrame({"tokens": [1], "log_probability": [-np.inf]}))


def test_many_points_become_one_small_picture_inside_the_figure(tmp_path):
    page = render_report(_run(tmp_path, _rows(2000)))
    (picture,) = re.findall(r'href="data:image/png;base64,([^"]+)"', page)
    assert base64.b64decode(picture)[:4] == b"\x89PNG"
    assert len(page) < 750_000  # with the examples as CSV


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.25, "0.25"),
        (43.7123, "43.71"),
        (123456.0, "123,456"),
        (12, "12"),
        (2.1e-6, "2.1e-06"),
        (None, "–"),
        (float("nan"), "–"),
        (float("-inf"), "−∞"),
        (True, "yes"),
        ("<", "<"),
    ],
)
def test_numbers_have_four_digits(value, text):
    assert number(value) == text


def test_measured_numbers_keep_their_zeros():
    assert [measured(v) for v in (0.25, 1.0, 43.7, 0.0, 5e-6)] == ["0.2500", "1.000", "43.70", "0", "5e-06"]


def test_text_helpers():
    assert visible("a\x00\u202eb\n\t\x7f") == "a\u2400⟨U+202E⟩b\n\t␡"
    assert clip_left("abcdef", 2) == "[4 characters] … ef"
    assert flatten({"a": {"b": 1, "c": {}}, "d": [True, None]}) == [
        ("a.b", "1"),
        ("a.c", "–"),
        ("d", "yes, –"),
    ]
