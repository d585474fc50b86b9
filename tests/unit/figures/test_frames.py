"""Tables as figures."""

from __future__ import annotations

import re

import pandas as pd
import pytest

from workbench.errors import ConfigError
from workbench.figures.frames import table_view

FRAME = pd.DataFrame({"name": ["a", "<b>"], "value": [0.5, 1.0], "low": [0.25, 0.5], "high": [0.75, 1.0]})


def circles(page: str) -> list[float]:
    return [float(x) for x in re.findall(r'<circle class="estimate" cx="([\d.]+)"', page)]


def test_values_in_0_to_1_stand_on_that_scale() -> None:
    page = table_view(FRAME, interval=("value", "low", "high")).html
    assert circles(page) == [110.0, 215.0]  # 5 + 210 * value
    assert "&lt;b&gt;" in page
    assert "<b>" not in page


def test_centred_rows_have_a_scale_each() -> None:
    frame = pd.DataFrame({"value": [1.0, -50.0], "low": [-2.0, -100.0], "high": [2.0, 0.0]})
    # a quarter of the way from the middle (110) to an end (105 away), to the right and to the left
    assert circles(table_view(frame, interval=("value", "low", "high"), centred=True).html) == [162.5, 57.5]


def test_every_format_and_all_rows_in_csv(tmp_path) -> None:
    frame = pd.DataFrame({"n": range(600)})
    view = table_view(frame, title="many")
    assert "The first 500 of 600 rows." in view.html
    assert len(view.save(tmp_path / "t.csv").read_text().splitlines()) == 601
    assert view.save(tmp_path / "t.png").read_bytes()[:4] == b"\x89PNG"
    assert "the first 60 of 600 rows" in view.save(tmp_path / "t.svg").read_text()


def test_a_table_without_rows_or_with_gaps_is_drawn() -> None:
    assert "<tbody></tbody>" in table_view(FRAME.head(0)).html
    gap = FRAME.assign(value=[float("nan"), 1.0])
    assert circles(table_view(gap, interval=("value", "low", "high")).html) == [215.0]


def test_a_missing_column_is_named() -> None:
    with pytest.raises(ConfigError, match="lacks low, high; it has value"):
        table_view(FRAME[["value"]], interval=("value", "low", "high"))
