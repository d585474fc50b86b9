"""Fifty hostile texts wherever text is shown: none runs, all are shown. Paths stay inside their folders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.browser.conftest import Visit, eventually, settle
from tests.browser.hostile import HOSTILE, as_name, as_token
from tests.browser.stored import HOSTILE_MODEL, store_hostile_runs
from tests.browser.test_dashboard import tokens, view_of, write

CHUNK = 25


@pytest.fixture(scope="module")
def hostile_runs(dashboard: tuple[str, Path]) -> Path:
    store_hostile_runs(dashboard[1])
    return dashboard[1]


def test_as_input_text_and_tokens(visit: Visit) -> None:
    page = visit(
        model=HOSTILE_MODEL, text=" ".join(HOSTILE[:5]), head=HOSTILE[0], tab=HOSTILE[1], pair=HOSTILE[2]
    )
    for start in range(0, len(HOSTILE), CHUNK):
        part = HOSTILE[start : start + CHUNK]
        write(page, "Text", " ".join(map(as_token, part)))
        expected = ["<s>", *(shown(as_token(text)) for text in part)]
        eventually(page, lambda expected=expected: tokens(page)[: len(expected)] == expected)
        write(page, "Text", "\n".join(part))
        assert page.get_by_label("Text", exact=True).input_value() == "\n".join(part)
    assert HOSTILE_MODEL in view_of(page, "Attention").locator("h1").inner_text()
    page.get_by_role("link", name="Models").click()
    settle(page)
    page.get_by_role("heading", name=HOSTILE_MODEL).wait_for()
    write(page, "A text to split into tokens", " ".join(map(as_token, HOSTILE[:10])))
    for text in HOSTILE[:10]:
        page.locator("code", has_text=as_token(text)).first.wait_for()


def test_as_the_model_of_a_link(visit: Visit) -> None:
    page = visit(model=HOSTILE[0])
    page.get_by_text("The link names a model that is not open here").wait_for()
    page.get_by_role("button", name="Open it").press("Enter")
    settle(page)
    page.get_by_role("alert").get_by_text(f"no model at '{HOSTILE[0]}'").first.wait_for()


def test_as_names_of_runs_models_tasks_and_labels(visit: Visit, hostile_runs: Path) -> None:
    page = visit("runs")
    page.get_by_role("combobox", name="Open", exact=True).click()
    for number in (0, 9, 21, 37, 48):
        page.get_by_role("combobox", name="Open", exact=True).fill(as_name(HOSTILE[number])[:12])
        name = as_name(HOSTILE[number])
        page.get_by_role("option", name=name, exact=True).first.click()
        settle(page)
        heading = page.get_by_role("heading", level=3)
        eventually(page, lambda name=name, heading=heading: heading.all_inner_texts() == [shown(name)])
        page.get_by_text("Examples (1)").click()
        page.get_by_text("Report", exact=True).click()
        settle(page)
        report = view_of(page, "Report of").locator("body")
        eventually(
            page, lambda text=HOSTILE[number], report=report: shown(text).split()[0] in report.inner_text()
        )
        page.get_by_text("Report", exact=True).click()
        settle(page)
        page.get_by_role("combobox", name="Open", exact=True).click()
    page.keyboard.press("Escape")
    board = visit("evaluation")
    for number in (0, 13, 38):
        board.get_by_role("combobox", name="Task", exact=True).click()
        board.get_by_role("combobox", name="Task", exact=True).fill(HOSTILE[number][:12])
        board.get_by_role("option", name=HOSTILE[number], exact=True).first.click()
        settle(board)
        body = view_of(board).locator("body")
        eventually(board, lambda text=HOSTILE[number], body=body: text in body.inner_text())


def shown(text: str) -> str:
    """A text as the pages write it: characters that cannot be seen by their number."""
    return "".join(c if c.isprintable() else f"⟨U+{ord(c):04X}⟩" for c in text)


def test_as_names_of_suites_tests_and_labels(visit: Visit) -> None:
    page = visit("challenge", model="tiny-llama", part="write a template")
    for start in range(0, len(HOSTILE), CHUNK):
        part = HOSTILE[start : start + CHUNK]
        tests = [
            {
                "name": text,
                "capability": text,
                "kind": "MFT",
                "template": "the cat " + text.replace("{", "{{").replace("}", "}}"),
                "label": part[0],
                "count": 1,
            }
            for text in part
        ]
        suite = {
            "suite": part[0],
            "labels": {part[0]: ["x"], "other": ["y"]},
            "prompt": {"text": "{0} is", "answers": {part[0]: " the", "other": " a"}},
            "tests": tests,
        }
        write(page, "A suite in YAML", json.dumps(suite, ensure_ascii=False))
        page.get_by_text(f"{CHUNK} tests, {CHUNK} cases").wait_for()
        page.get_by_role("button", name="Run", exact=True).click()
        settle(page)
        body = view_of(page).locator("body")
        for text in part:
            eventually(
                page,
                lambda text=text, body=body: " ".join(text.split()) in " ".join(body.inner_text().split()),
            )


def test_as_file_names_and_outside_the_folders(visit: Visit) -> None:
    page = visit("challenge", part="run")
    for path in ("/etc", "../..", "~", *(f"/{text}" for text in HOSTILE[9:12])):
        page.get_by_label("Folder with the set's files").fill(path)
        page.get_by_role("button", name="Run", exact=True).click()
        settle(page)
        page.get_by_role("alert").get_by_text(f"{shown(path)} lies outside the folders").wait_for()
    page = visit("runs", run="../../../etc")
    page.get_by_text("There is no run ../../../etc in the runs folder.").wait_for()
    page = visit("models")
    page.get_by_label("A folder, a .gguf file or a hub id").fill("/etc")
    page.get_by_test_id("stBaseButton-secondaryFormSubmit").click()
    settle(page)
    page.get_by_role("alert").get_by_text(
        "/etc lies outside the folders that this dashboard reads"
    ).wait_for()
