"""The dashboard in a real browser: clicked through, linked to, and fed with hostile text."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from tests.browser.conftest import Visit, settle
from tests.unit.dashboard.test_pages import finish, store_run

TEXT = "the cat sat on the mat"
HOSTILE = [
    "<script>alert(1)</script>",
    "</textarea></iframe><img src=x onerror=alert(2)>",
    "<svg onload=alert(3)>",
    "[click](javascript:alert(4)) ![i](http://evil.example/i.png)",
    "\"'><b onmouseover=alert(5)>x</b> `$\\alpha$` :material/home: **bold**",
    "\u202eright to left\u2066 😀 שלום",
    "{{7*7}} ${7*7} <%= 7 %>",
]


def view_of(page: Any, title: str) -> Any:
    """The figure's own document, inside a frame inside Streamlit's frame."""
    return page.frame_locator("iframe[data-testid=stIFrame]").first.frame_locator(f"iframe[title^='{title}']")


def tokens(page: Any, title: str = "Attention, head") -> list[str]:
    shown = view_of(page, title).locator(".tokens.from .text")
    shown.first.wait_for()
    return list(shown.all_inner_texts())


def address(page: Any) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(page.url).query))


def choose(page: Any, label: str, option: str) -> None:
    page.get_by_role("combobox", name=label).click()
    page.get_by_role("option", name=option, exact=True).click()
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


def test_a_model_is_chosen_and_kept_from_page_to_page(visit: Visit) -> None:
    page = visit()
    assert page.get_by_role("heading", name="tiny-bert").is_visible()
    choose(page, "Model", "tiny-bart")
    assert page.locator(".facts dd").all_inner_texts()[:2] == ["seq2seq", "bart"]
    page.get_by_role("link", name="Inspect").click()
    settle(page)
    assert address(page)["model"] == "tiny-bart"
    assert page.get_by_role("radio", name="alignment").is_visible()


def test_the_address_reproduces_the_page(visit: Visit) -> None:
    page = visit("inspect")
    page.get_by_label("Text", exact=True).fill(TEXT)
    page.get_by_label("Text", exact=True).press("Control+Enter")
    settle(page)
    page.get_by_label("Second text").fill("a dogs ran")
    page.get_by_label("Second text").press("Enter")
    settle(page)
    choose(page, "Layer", "1")
    choose(page, "Head", "2")
    page.get_by_text("Hide sinks", exact=True).first.click()
    settle(page)
    expected = {"text": TEXT, "pair": "a dogs ran", "layer": "1", "head": "2", "sinks": "true"}
    assert address(page) == expected
    other = visit("inspect", **expected)
    for one in (page, other):
        assert tokens(one) == ["<s>", *TEXT.split(), "</s>", "a", "dogs", "ran", "</s>"]
        view = view_of(one, "Attention, head")
        assert view.locator("select").first.input_value() == "1"
        pressed = view.locator(".head[aria-pressed=true]").all_inner_texts()
        assert pressed == ["2"]
        assert view.get_by_role("button", name="Hide sinks").get_attribute("aria-pressed") == "true"


def test_a_token_under_the_pointer_is_read_out(visit: Visit) -> None:
    page = visit("inspect", text=TEXT)
    view = view_of(page, "Attention, head")
    view.locator(".tokens.from button").nth(2).hover()
    assert view.locator(".readout").inner_text().startswith("cat attends to ")


@pytest.mark.parametrize("kind", ["model", "neuron"])
def test_the_other_views_are_drawn(visit: Visit, kind: str) -> None:
    page = visit("inspect", text=TEXT, view=kind)
    frame = page.frame_locator("iframe[data-testid=stIFrame]").frame_locator("iframe")
    frame.locator("canvas").first.wait_for()
    assert "tiny-bert" in frame.locator("h1").first.inner_text()


def test_a_figure_is_downloaded(visit: Visit) -> None:
    page = visit("inspect", text=TEXT)
    with page.expect_download() as waiting:
        page.get_by_role("button", name="CSV").press("Enter")
    rows = Path(waiting.value.path()).read_text().splitlines()
    assert len(rows) == 1 + 2 * 4 * 8 * 8  # header; layers x heads x tokens x tokens


def test_hostile_text_is_shown_and_never_run(visit: Visit) -> None:
    text = " ".join(HOSTILE)
    page = visit("inspect", text=text, pair=text, model=HOSTILE[0], head=text)
    assert page.get_by_text("The link names a model that is not open here").is_visible()
    assert page.get_by_label("Text", exact=True).input_value() == text
    assert tokens(page)[0] == "<s>"
    page.get_by_label("Text", exact=True).fill(HOSTILE[1])
    page.get_by_label("Text", exact=True).press("Control+Enter")
    settle(page)
    assert page.get_by_label("Text", exact=True).input_value() == HOSTILE[1]
    page.get_by_role("button", name="Open it").press("Enter")
    settle(page)
    assert "no model at '<script>alert(1)</script>'" in page.get_by_role("alert").first.inner_text()


def test_hostile_names_of_runs_and_models(visit: Visit, dashboard: tuple[str, Path]) -> None:
    runs = dashboard[1]
    done = finish(store_run(runs, model=HOSTILE[1]))
    (runs / "<img src=x onerror=alert(1)>").mkdir(exist_ok=True)
    page = visit("runs", run=done, report="true")
    report = page.frame_locator("iframe[data-testid=stIFrame]").frame_locator("iframe")
    report.locator("h1").first.wait_for()
    assert HOSTILE[1] in report.locator("body").inner_text()
    choose(page, "Open", "<img src=x onerror=alert(1)>")
    assert page.get_by_role("alert").first.is_visible()  # no run, and said so


def test_a_path_outside_the_runs_folder_is_refused(visit: Visit, dashboard: tuple[str, Path]) -> None:
    finish(store_run(dashboard[1]))
    page = visit("runs", run="../../../etc")
    assert page.get_by_text("There is no run ../../../etc in the runs folder.").is_visible()


def test_sessions_at_once_see_their_own_text(visit: Visit) -> None:
    words = ["cat", "dogs", "key"]
    pages = [visit("inspect", text=f"the {word} sat") for word in words]
    for page, word in zip(pages, reversed(words), strict=True):  # all change before any is read
        page.get_by_label("Text", exact=True).fill(f"a {word} ran")
        page.get_by_label("Text", exact=True).press("Control+Enter")
    for page, word in zip(pages, reversed(words), strict=True):
        settle(page)
        view_of(page, "Attention, head").locator(".tokens.from .text", has_text="ran").wait_for()
        assert tokens(page) == ["<s>", "a", word, "ran", "</s>"]


@pytest.mark.parametrize(
    ("path", "scheme"), [("", "dark"), ("inspect", "light"), ("inspect", "dark"), ("runs", "light")]
)
def test_pages_fit_a_phone_in_light_and_dark(visit: Visit, path: str, scheme: str) -> None:
    page = visit(path, width=390, scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    colour = page.evaluate("getComputedStyle(document.querySelector('[data-testid=stApp]')).backgroundColor")
    assert (colour == "rgb(255, 255, 255)") is (scheme == "light")
    if path == "inspect":
        body = view_of(page, "Attention, head").locator("body")
        inside = body.evaluate("element => getComputedStyle(element).backgroundColor")
        assert (inside == "rgb(255, 255, 255)") is (scheme == "light")
