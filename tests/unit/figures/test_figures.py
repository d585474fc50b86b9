"""Heat maps, head statistics, coloured text, the dependency table and plots."""

from __future__ import annotations

import base64
import itertools
import json
import re

import numpy as np
import pandas as pd
import pytest

from workbench.errors import ConfigError, NumericsError
from workbench.figures import (
    Curve,
    View,
    curve_plot,
    dependency_table,
    head_statistics_grid,
    heat_map,
    highlighted_text,
    highlighted_texts,
)
from workbench.figures.saliency import generation_map
from workbench.statistics import Statistic

ENTROPY = Statistic(
    name="attention entropy",
    unit="nats",
    values=np.array([[0.0, 1.0, 2.0], [0.5, 1.5, 2.5]]),
    axes=("layer", "head"),
    standard_error=np.full((2, 3), 0.1),
)
RELATIONS = pd.DataFrame(
    {
        "relation": ["nsubj", "<b>obj</b>"],
        "layer": [3, 4],
        "head": [1, 0],
        "accuracy": [0.7, 0.81],
        "low": [0.65, 0.8],
        "high": [0.75, 0.82],
        "baseline": [0.5, 0.4],
        "offset": [1, 0],
        "count": [1200, 300],
    }
)
PLACES = Statistic(
    name="positions", unit="", values=np.arange(12.0).reshape(2, 3, 2), axes=("layer", "head", "dimension")
)


def page_data(view: View) -> dict:
    return json.loads(re.search(r'id="data">(.*?)</script>', view.html, re.S).group(1))


def figures() -> list[View]:
    return [
        heat_map(np.array([[1.0, -2.0]]), ["a"], ["$b$", "c"]),
        head_statistics_grid(ENTROPY),
        highlighted_text(["Ġa", "<b>", "$"], [1.0, -0.5, 0.0]),
        dependency_table(RELATIONS),
        curve_plot([Curve(name="$x", x=[0, 1], y=[0.1, np.nan], low=[0.0, 0.1], high=[0.2, 0.3])]),
    ]


@pytest.mark.parametrize("suffix", ["html", "svg", "png", "pdf", "csv"])
def test_every_figure_saves_in_every_format(suffix, tmp_path):
    for number, view in enumerate(figures()):
        assert view.save(tmp_path / f"{number}.{suffix}").stat().st_size > 20


def test_head_grid_shows_the_statistic_with_its_errors():
    matrix = page_data(head_statistics_grid(ENTROPY))["matrix"]
    values = np.frombuffer(base64.b64decode(matrix["values"]), "<f4").reshape(2, 3)
    assert np.array_equal(values, ENTROPY.values)
    assert (matrix["axes"], matrix["unit"], matrix["signed"]) == (["layer", "head"], "nats", False)
    assert (matrix["low"], matrix["high"]) == (0.0, 2.5)
    assert np.frombuffer(base64.b64decode(matrix["errors"]), "<f4") == pytest.approx(0.1)


def test_head_grid_turns_a_statistic_whose_axes_are_swapped():
    swapped = Statistic(name="entropy", unit="nats", values=ENTROPY.values.T, axes=("head", "layer"))
    frame = head_statistics_grid(swapped).to_frame()
    assert frame[(frame["layer"] == "1") & (frame["head"] == "2")]["value"].item() == 2.5


def test_head_grid_refuses_other_axes():
    with pytest.raises(ConfigError, match=r"must be \('layer', 'head'\)"):
        head_statistics_grid(PLACES)


def test_negative_values_centre_the_colours_at_zero():
    matrix = page_data(heat_map(np.array([[1.0, -2.0]])))["matrix"]
    assert (matrix["signed"], matrix["low"], matrix["high"]) == (True, -2.0, 2.0)


def test_columns_of_other_units_have_no_part_in_the_colours():
    view = heat_map(np.array([[1.0], [3.0]]), ["a", "b"], ["x"], beside={"bits": [50.0, -7.0]})
    matrix = page_data(view)["matrix"]
    assert (matrix["low"], matrix["high"], matrix["uncoloured"]) == (0.0, 3.0, 1)
    assert view.to_frame()["value"].tolist() == [1.0, 50.0, 3.0, -7.0]
    drawn = view.draw().axes[0]
    assert {text.get_text() for text in drawn.texts} == {"1.00", "50.00", "3.00", "-7.00"}
    assert np.ma.getmaskarray(drawn.images[0].get_array()).tolist() == [[False, True], [False, True]]
    with pytest.raises(ConfigError, match="bits has 1 values for 2 rows"):
        heat_map(np.zeros((2, 1)), beside={"bits": [1.0]})


@pytest.mark.parametrize("columns", [50, 300])
def test_columns_of_other_units_are_written_in_a_large_map_and_do_not_overlap(columns):
    bits, ranks = np.arange(20) + 10.25, np.arange(20) + 100.5
    view = heat_map(np.zeros((20, columns)), beside={"bits": bits.tolist(), "rank": ranks.tolist()})
    figure = view.draw()
    figure.draw_without_rendering()
    axes = figure.axes[0]
    assert [text.get_text() for text in axes.texts] == [
        f"{v:.2f}" for pair in zip(bits, ranks, strict=True) for v in pair
    ]
    boxes = [text.get_window_extent() for text in axes.texts]
    assert not any(a.overlaps(b) for a, b in itertools.pairwise(boxes))
    assert all(axes.bbox.x0 < box.x0 and box.x1 < axes.bbox.x1 for box in boxes)
    assert [label.get_text() for label in axes.get_xticklabels(minor=True)] == ["bits", "rank"]


@pytest.mark.parametrize(
    ("values", "part"),
    [(np.zeros(3), r"shape \(3,\)"), (np.zeros((0, 2)), "non-empty"), (np.zeros((1, 3000)), "at most 2,048")],
)
def test_heat_map_refuses_what_is_no_matrix(values, part):
    with pytest.raises(ConfigError, match=part):
        heat_map(values)


def test_highlighted_text_escapes_tokens_and_scales_to_the_largest_magnitude():
    page = highlighted_text(["Ġgood", "<b>", "Ġbad"], [2.0, 1.0, -1.0]).html
    spans = re.findall(r'class="(plus|minus)" style="--strength:([\d.]+)">(.*?)</span>', page)
    assert spans == [("plus", "1.000", "good"), ("plus", "0.500", "&lt;b&gt;"), ("minus", "0.500", "bad")]


def test_highlighted_text_joins_pieces_as_the_tokenizer_marked_them():
    words = re.sub(r"<[^>]+>", "", re.search(r'class="marked">(.*?)</p>', highlighted_text(
        ["play", "##ing", "cards"], [0.0, 1.0, 0.0]).html).group(1))  # fmt: skip
    assert words == "playing cards"


def test_latex_is_escaped(tmp_path):
    text = highlighted_text(["100%", "a_b", "\\x"], [1.0, -1.0, 0.5]).save(tmp_path / "t.tex").read_text()
    assert "100\\%" in text
    assert "a\\_b" in text
    assert "\\textbackslash{}x" in text
    assert "\\colorbox{positive!62}" in text  # the strongest score has the strongest tint, 62 %


def test_scores_must_match_tokens_and_be_finite():
    with pytest.raises(ConfigError, match="one score per token"):
        highlighted_text(["a"], [1.0, 2.0])
    with pytest.raises(NumericsError, match=r"scores\[1\]"):
        highlighted_text(["a", "b"], [1.0, np.inf])


def test_another_number_of_scores_or_names_is_one_line():
    for scores, names in (([[1.0]], None), ([[1.0], [2.0]], ["first"]), ([[1.0], [2.0]], [])):
        with pytest.raises(
            ConfigError, match=r"^2 texts, \d rows of scores, \d names; give as many of each$"
        ):
            highlighted_texts([["a"], ["b"]], scores, names=names)
    with pytest.raises(ConfigError, match="no generated token to draw"):
        generation_map([], ())


def test_static_texts_have_their_names_and_no_more_lines_than_fit(tmp_path):
    view = highlighted_texts([["a"], ["b"]], [[1.0], [2.0]], names=["12.3 bits", "4_5 bits"])
    assert [text.get_text() for text in view.draw().axes[0].texts] == ["12.3 bits", "a", "4_5 bits", "b"]
    latex = view.save(tmp_path / "t.tex").read_text()
    assert (
        latex.index("12.3 bits") < latex.index("strut a") < latex.index("4\\_5 bits") < latex.index("strut b")
    )
    assert highlighted_texts([["a"]] * 115, [[1.0]] * 115).save(tmp_path / "t.svg").is_file()
    many = highlighted_texts([["a"]] * 116, [[1.0]] * 116)
    assert many.save(tmp_path / "t.html").is_file()
    with pytest.raises(ConfigError, match=r"^116 lines of text for one picture; allowed: 115; save as .html"):
        many.save(tmp_path / "t.png")


def test_the_tallest_picture_of_texts_has_no_lines_that_overlap():
    figure = highlighted_texts([["line"]] * 115, [[1.0]] * 115).draw()
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    assert not any(a.overlaps(b) for a, b in itertools.pairwise(boxes))


def test_dependency_table_names_head_interval_and_baseline():
    page = dependency_table(RELATIONS).html
    for expected in ("&lt;b&gt;obj&lt;/b&gt;", "<td>3-1</td>", "0.650 to 0.750", ">+1</td>", ">1,200</td>"):
        assert expected in page


def test_dependency_table_says_which_columns_it_lacks():
    with pytest.raises(ConfigError, match="lacks low, high"):
        dependency_table(RELATIONS.drop(columns=["low", "high"]))


def test_curves_break_at_missing_values():
    series = page_data(curve_plot([Curve(name="a", x=[0, 1, 2], y=[1.0, np.nan, 3.0])]))["plot"]["series"][0]
    assert series["y"] == [1.0, None, 3.0]


def test_curves_of_unequal_length_are_refused():
    with pytest.raises(ConfigError, match="equally long"):
        Curve(name="a", x=[0, 1], y=[1.0])
