"""The dashboard in a real browser: models, the address, attention, and how it looks on a phone."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from tests.browser.conftest import Visit, eventually, settle

TEXT = "the cat sat on the mat"


def view_of(page: Any, title: str = "") -> Any:
    """The document of the first figure on the page whose title begins so."""
    return page.frame_locator(f"iframe[sandbox=allow-scripts][title^='{title}']" if title else "iframe").first


def tokens(page: Any, title: str = "Attention, head") -> list[str]:
    shown = view_of(page, title).locator(".tokens.from .text")
    shown.first.wait_for()
    return list(shown.all_inner_texts())


def address(page: Any) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(page.url).query))


def choose(page: Any, label: str, option: str) -> None:
    page.get_by_role("combobox", name=label, exact=True).click()
    page.get_by_role("option", name=option, exact=True).click()
    settle(page)


def write(page: Any, label: str, text: str) -> None:
    field = page.get_by_label(label, exact=True)
    field.fill(text)
    field.press("Control+Enter")
    settle(page)


def test_it_listens_on_this_machine_only(dashboard: tuple[str, Path]) -> None:
    port = int(dashboard[0].rpartition(":")[2])
    listening = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        if not Path(table).is_file():
            pytest.skip("needs /proc/net")
        rows = [line.split() for line in Path(table).read_text().splitlines()[1:]]
        listening += [row[1] for row in rows if row[3] == "0A" and int(row[1].rpartition(":")[2], 16) == port]
    loopback = {"0100007F", "00000000000000000000000001000000"}  # 127.0.0.1 and ::1, little-endian
    assert listening
    assert {where.partition(":")[0] for where in listening} <= loopback


def test_models_are_chosen_and_kept_from_page_to_page(visit: Visit) -> None:
    page = visit("models")
    page.get_by_role("heading", name="tiny-bert").wait_for()
    choose(page, "Model", "tiny-bart")
    eventually(page, lambda: page.locator(".facts dd").all_inner_texts()[:2] == ["seq2seq", "bart"])
    choose(page, "Second model", "tiny-llama")
    facts = page.locator(".facts").nth(1).locator("dd")
    eventually(page, lambda: facts.all_inner_texts()[:2] == ["causal", "llama"])
    write(page, "A text to split into tokens", "the cat")
    page.get_by_text("2 tokens:").wait_for()  # of the Llama
    page.get_by_text("One block").nth(1).click()
    page.get_by_text("LlamaDecoderLayer").wait_for()
    page.get_by_text("builtin", exact=True).click()
    settle(page)
    page.get_by_text(
        "causal self-attention: 4 heads of 8, 2 key/value heads"
    ).wait_for()  # in its diagram of the block
    page.get_by_role("link", name="Inspect").click()
    settle(page)
    expected = {"model": "tiny-bart", "second": "tiny-llama", "implementation": "builtin"}
    eventually(page, lambda: address(page) == expected)
    eventually(page, lambda: page.locator("iframe[sandbox=allow-scripts]").count() == 2)


def test_the_address_reproduces_the_page(visit: Visit) -> None:
    page = visit()
    write(page, "Text", TEXT)
    page.get_by_label("Second text").fill("a dogs ran")
    page.get_by_label("Second text").press("Enter")
    settle(page)
    choose(page, "Layer", "1")
    choose(page, "Head", "2")
    page.get_by_text("Hide sinks", exact=True).first.click()
    settle(page)
    expected = {"text": TEXT, "pair": "a dogs ran", "layer": "1", "head": "2", "sinks": "true"}
    eventually(page, lambda: address(page) == expected)
    other = visit("", **expected)
    for one in (page, other):
        assert tokens(one) == ["<s>", *TEXT.split(), "</s>", "a", "dogs", "ran", "</s>"]
        view = view_of(one, "Attention, head")
        assert view.locator("select").first.input_value() == "1"
        pressed = view.locator(".head[aria-pressed=true]").all_inner_texts()
        assert pressed == ["2"]
        assert view.get_by_role("button", name="Hide sinks").get_attribute("aria-pressed") == "true"


def test_heads_and_tokens_answer_to_pointer_and_keys(visit: Visit) -> None:
    page = visit(text=TEXT)
    view = view_of(page, "Attention, head")
    view.locator(".tokens.from button").nth(2).hover()
    eventually(page, lambda: view.locator(".readout").inner_text().startswith("cat attends to "))
    view.locator(".head").nth(3).click()
    assert view.locator(".head[aria-pressed=true]").all_inner_texts() == ["0", "1", "2"]  # head 3 is off
    for kind in ("model", "neuron"):
        page.get_by_role("radio", name=kind, exact=True).click()
        settle(page)
        view_of(page).locator("canvas").first.wait_for()


def test_a_figure_is_downloaded_and_its_code_is_shown(visit: Visit) -> None:
    page = visit(text=TEXT)
    view_of(page, "Attention, head").get_by_text("Point at a token").wait_for()
    download, table = (page.get_by_role("button", name=name, exact=True) for name in ("Download", "CSV"))

    def opens() -> bool:  # a frame that takes its height moves the button from under the pointer
        if not table.is_visible():
            download.click()
            page.wait_for_timeout(1000)
        return bool(table.is_visible())

    eventually(page, opens)
    for suffix, beginning in (
        ("CSV", b"attention,"),
        ("SVG", b"<?xml"),
        ("PNG", b"\x89PNG"),
        ("HTML", b"<!doctype"),
    ):
        with page.expect_download() as waiting:
            page.get_by_role("button", name=suffix, exact=True).click()
        content = Path(waiting.value.path()).read_bytes()
        assert content.startswith(beginning)
        if suffix == "CSV":
            assert len(content.splitlines()) == 1 + 2 * 4 * 8 * 8  # header; layers x heads x tokens x tokens
    page.keyboard.press("Escape")
    page.get_by_role("button", name="The code for this").click()
    page.get_by_text("view_of(trace_for(model, 'the cat sat on the mat', options), options)").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_a_phone_in_light_and_dark(visit: Visit, scheme: str) -> None:
    page = visit(width=390, scheme=scheme)
    colour = "getComputedStyle(document.querySelector('[data-testid=stApp]')).backgroundColor"
    expected = "rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 24, 28)"
    assert page.evaluate(colour) == expected
    body = view_of(page, "Attention, head").locator("body")
    assert body.evaluate("element => getComputedStyle(element).backgroundColor") == expected
    base = page.url.partition("?")[0]
    for path in (
        "",
        "models",
        "probes",
        "challenge",
        "evaluation",
        "changes",
        "preferences",
        "training",
        "runs",
    ):
        page.goto(f"{base}{path}")
        settle(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
