"""What a view writes: a page that holds everything and runs nothing of the text, static files, a table."""

from __future__ import annotations

import base64
import json
import re
from html import unescape

import numpy as np
import pandas as pd
import pytest

from workbench.errors import ConfigError, TraceError
from workbench.figures import View, alignment_view, head_view, model_view, neuron_view
from workbench.figures._inputs import AttentionInputs
from workbench.figures._page import map_record, strongest_keys

TOKENS = ["<script>alert(1)</script>", "</script>", "\"'&", "שלום", "😀", "\x00", "$x^2$", "\u202e"]
RANDOM = np.random.default_rng(0)
ATTENTION = RANDOM.dirichlet(np.ones(8), size=(2, 3, 8)).astype(np.float32)
VECTORS = RANDOM.normal(size=(2, 3, 8, 4)).astype(np.float32)


def all_views() -> dict[str, View]:
    return {
        "head": head_view(ATTENTION, TOKENS, title="</title><script>alert(2)</script>"),
        "model": model_view(ATTENTION, TOKENS),
        "neuron": neuron_view(VECTORS, VECTORS, ATTENTION, TOKENS),
        "alignment": alignment_view(ATTENTION, TOKENS, TOKENS),
    }


def page_data(view: View) -> dict:
    return json.loads(re.search(r'id="data">(.*?)</script>', view.html, re.S).group(1))


@pytest.mark.parametrize("name", ["head", "model", "neuron", "alignment"])
def test_pages_hold_every_token_as_data_and_fetch_nothing(name):
    view = all_views()[name]
    assert "alert(1)" in view.html
    assert "<script>alert" not in view.html
    assert page_data(view)["maps"][0]["keys"]["tokens"][:3] == TOKENS[:3]
    assert re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?(?!#)\S""", view.html) == []
    assert "default-src 'none'" in view.html


@pytest.mark.parametrize("name", ["head", "model", "neuron", "alignment"])
@pytest.mark.parametrize(
    ("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF"), ("html", b"<!doc")]
)
def test_every_view_saves_in_every_format(name, suffix, start, tmp_path):
    path = all_views()[name].save(tmp_path / "new folder" / f"view.{suffix}")
    assert path.read_bytes().startswith(start)
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_svg_keeps_text_as_escaped_text(tmp_path):
    text = all_views()["head"].save(tmp_path / "view.svg").read_text()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "$x^2$" in text  # not read as TeX


def test_csv_holds_the_weights(tmp_path):
    frame = pd.read_csv(all_views()["model"].save(tmp_path / "view.csv"))
    assert len(frame) == 2 * 3 * 8 * 8
    assert np.allclose(frame["weight"], ATTENTION.ravel(), atol=1e-7)
    assert frame["query_token"][0] == TOKENS[0]


def test_unknown_suffix_is_refused_with_the_list(tmp_path):
    with pytest.raises(ConfigError, match=r"'\.gif' is not one of \.csv, \.html, \.pdf, \.png, \.svg"):
        all_views()["head"].save(tmp_path / "view.gif")


def test_a_failed_write_leaves_no_file(tmp_path):
    (tmp_path / "view.html").mkdir()
    with pytest.raises(OSError, match=r"view\.html"):
        all_views()["head"].save(tmp_path / "view.html")
    assert [p.name for p in tmp_path.iterdir()] == ["view.html"]


def test_notebooks_get_a_frame_of_their_own():
    view = all_views()["head"]
    shown = view._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert 'sandbox="allow-scripts"' in shown
    assert unescape(re.search(r'srcdoc="(.*?)"', shown, re.S).group(1)) == view.html
    assert view.data == view.html


def test_small_maps_are_packed_in_sixteen_bits():
    (whole,) = AttentionInputs(attention=ATTENTION, tokens=TOKENS).maps()
    record = map_record(whole)
    layer = np.frombuffer(base64.b64decode(record["weights"][1]), "<u2").reshape(3, 8, 8) / 65535
    assert (record["bits"], record["kept"]) == (16, 0)
    assert np.abs(layer - ATTENTION[1]).max() <= 0.5 / 65535 + 1e-7  # half a step


def test_strongest_keys_are_the_largest_and_say_their_share():
    weights = np.array([0.5, 0.1, 0.3, 0.1], np.float32).reshape(1, 1, 1, 4)
    strongest = strongest_keys(weights, 2)
    assert set(strongest.index.ravel()) == {0, 2}
    assert strongest.share == pytest.approx(0.8)  # 0.5 + 0.3


def test_large_maps_keep_the_strongest_keys_and_say_so():
    count = 512
    weights = np.full((2, 12, count, count), 1e-4, np.float32)
    weights[..., 3] = 0.9
    (whole,) = AttentionInputs(attention=weights, tokens=["x"] * count).maps()
    record = map_record(whole)
    assert record["kept"] == 2_000_000 // (2 * 12 * count)  # 162 keys of each query
    index = np.frombuffer(base64.b64decode(record["index"][0]), "<u2").reshape(12, count, -1)
    assert (index == 3).any(-1).all()
    assert record["share"] == pytest.approx((0.9 + 161e-4) / (0.9 + 511e-4), abs=1e-3)


def test_first_layer_and_heads_are_positions_of_the_numbers_given():
    view = head_view(ATTENTION, TOKENS, layer=1, heads=[2], include_layers=[1], merge_words=True)
    state = page_data(view)["state"]
    assert (state["layer"], state["heads"], state["words"], state["sinks"]) == (0, [2], True, False)


@pytest.mark.parametrize(
    ("call", "part"),
    [
        (lambda: head_view(ATTENTION, TOKENS, layer=6), "layer 6 is not shown; choose from 0 to 1"),
        (lambda: head_view(ATTENTION, TOKENS, heads=[3]), "head 3 is not shown; choose from 0 to 2"),
        (lambda: neuron_view(VECTORS, VECTORS, ATTENTION, TOKENS, query=8), "query 8 .* 0 to 7"),
    ],
)
def test_numbers_out_of_range_are_told_the_range(call, part):
    with pytest.raises(TraceError, match=part):
        call()


@pytest.mark.parametrize("arguments", [{"display_mode": "sepia"}, {"html_action": "save"}])
def test_unknown_choices_are_told_the_allowed_ones(arguments):
    with pytest.raises(ConfigError, match="is not one of"):
        _ = head_view(ATTENTION, TOKENS, **arguments).html


def test_grouped_keys_are_repeated_for_their_queries():
    keys = VECTORS[:, :1]
    frame = neuron_view(VECTORS, keys, ATTENTION, TOKENS, layer=1, head=2).to_frame()
    expected = VECTORS[1, 2] @ keys[1, 0].T
    assert np.allclose(frame["q_dot_k"], expected.ravel(), atol=1e-5)


def test_vectors_of_another_pass_are_refused():
    with pytest.raises(ConfigError, match="record all three in one pass"):
        neuron_view(VECTORS[:, :, :5], VECTORS[:, :, :5], ATTENTION, TOKENS)
