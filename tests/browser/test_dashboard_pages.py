"""Each page walked as a user would: choose, type, run, explain, compare, delete."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Visit, eventually, settle
from tests.browser.test_dashboard import address, choose, tokens, view_of, write


def choose_row(page: Any, row: int = 0) -> None:
    """Tick a row of the first table that lets one choose; tables are drawn on a canvas."""
    canvas = page.locator("[data-testid=stDataFrame] canvas").first
    canvas.wait_for()
    canvas.scroll_into_view_if_needed()
    page.wait_for_timeout(300)  # until it has stopped
    box = canvas.bounding_box()
    page.mouse.click(box["x"] + 16, box["y"] + 52 + 35 * row)
    settle(page)


def test_tabs_of_inspect(visit: Visit) -> None:
    page = visit(model="tiny-llama", text="the cats sat on the mat")
    for tab, title in (
        ("saliency", "Saliency methods side by side"),
        ("predictions", "Logit lens"),
        ("generation", "Step 1 of"),
        ("heads", "Entropy"),
    ):
        page.get_by_role("radio", name=tab).click()
        settle(page)
        view_of(page, title).locator("h1").first.wait_for()
    page.get_by_role("radio", name="clusters").click()
    settle(page)
    view_of(page, "Heads of").locator("canvas").wait_for()
    assert {k: v for k, v in address(page).items() if k in ("tab", "heads")} == {
        "tab": "heads",
        "heads": "clusters",
    }
    page.get_by_role("radio", name="neurons").click()
    settle(page)
    page.get_by_text("What its output raises and lowers in the vocabulary").wait_for()
    page.get_by_role("radio", name="patching").click()
    settle(page)
    write(page, "Other text", "the cat sat on the mat")
    page.get_by_label("Target", exact=True).fill("are")
    page.get_by_label("Target", exact=True).press("Enter")
    settle(page)
    view_of(page, "Patching effect").locator("canvas").wait_for()
    write(page, "Other text", "the cat sat")
    page.get_by_role("alert").get_by_text("clean has 6 tokens, corrupted 3").wait_for()
    page.get_by_role("radio", name="difference").click()
    settle(page)
    view_of(page, "Difference of attention").locator("canvas").wait_for()
    shown = {"tab": "difference", "other": "the cat sat", "model": "tiny-llama"}
    eventually(page, lambda: shown.items() <= address(page).items())


@pytest.mark.parametrize(
    ("strategy", "settings", "texts", "said"),
    [
        ("beam search", {"beams": "3"}, 3, "log_probability"),
        ("sampling", {"samples": "2", "seed": "5"}, 2, "Holtzman et al. 2020"),
        ("contrastive search", {"penalty": "0.6", "candidates": "3"}, 1, "Su et al. 2022"),
        ("best of n", {"best_of": "4", "reward_reply": "<b>cat"}, 4, "= 0.636 nats"),
    ],
)
def test_strategies_of_generation(
    visit: Visit, strategy: str, settings: dict[str, str], texts: int, said: str
) -> None:
    text = "<b>the cats"
    asked = {"tab": "generation", "text": text, "strategy": strategy, "count": "6"}
    page = visit(model="tiny-llama", **asked, **settings)
    view_of(page, "Step 1 of").locator("h1").first.wait_for()
    assert page.locator('[data-testid="stText"]').filter(has_text=text).count() == texts
    if said != "log_probability":
        page.get_by_text(said).first.wait_for()
    assert page.get_by_label("Text to look into").count() == (texts > 1)


def test_an_experiment_runs_as_a_job_and_another_is_cancelled(
    visit: Visit, dashboard: tuple[str, Path]
) -> None:
    page = visit("probes")
    for layers in ("0", "all"):
        if layers == "all":  # the form is folded once a run is stored
            page = visit("probes")
            page.get_by_text("Run an experiment").click()
        page.get_by_label("Layers", exact=True).fill(layers)
        page.get_by_label("Sentences at most").fill("10")
        page.get_by_text("Also probe the same model with random weights").click()
        page.get_by_role("button", name="Run", exact=True).click()
        settle(page)
        if layers == "0":
            page.get_by_text("probe pos in tiny-bert · running").wait_for()
            page.get_by_role("button", name="Open the run").wait_for()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("probe pos in tiny-bert · cancelled").wait_for()
    done = [path for path in dashboard[1].glob("*tiny-bert-pos*") if (path / "results.json").is_file()]
    assert len(done) == 1
    view_of(page, "pos in ").locator("svg").first.wait_for()
    # a browser draws a frame of foreign origin once it is in sight
    page.locator("iframe[title^='Confusion at layer 0']").first.scroll_into_view_if_needed()
    view_of(page, "Confusion at layer 0").locator("canvas").wait_for()
    page.get_by_role("button", name="Open the run").click()
    settle(page)
    heading = page.get_by_role("heading", level=3)
    eventually(page, lambda: heading.all_inner_texts() == [done[0].name])


def test_saliency_is_doubted_in_a_job(visit: Visit) -> None:
    page = visit(model="tiny-llama", text="the cats sat", tab="saliency")
    page.get_by_text("How far to believe them", exact=True).first.click()
    page.get_by_text("how far to believe saliency of tiny-llama · running").wait_for()
    page.locator("iframe[title^='Scores under randomised weights']").scroll_into_view_if_needed()
    view_of(page, "Scores under randomised weights").locator("canvas").wait_for()
    view_of(page, "Agreement of methods").locator("canvas").wait_for(state="attached")
    job = page.get_by_text("how far to believe saliency of tiny-llama ·")
    eventually(page, lambda: job.count() == 0)  # a finished job leaves the panel


def test_a_failing_pair_is_explained(visit: Visit) -> None:
    page = visit("challenge")
    table = view_of(page, "pairs ·")
    assert "agreement" in table.locator("body").inner_text()
    choose_row(page)
    page.get_by_role("button", name="Explain").click()
    page.get_by_role("heading", name="Inspect").wait_for()
    settle(page)
    texts = [page.get_by_label(label, exact=True) for label in ("Text", "Other text")]
    pair = ["the cats are on the mat", "the cats is on the mat"]
    eventually(page, lambda: [text.input_value() for text in texts] == pair)
    assert page.get_by_role("radio", name="difference").get_attribute("aria-checked") == "true"
    view_of(page, "Difference of attention").locator("canvas").wait_for()
    view_of(page, "Where predictions part").locator("svg").first.wait_for()
    eventually(page, lambda: address(page).get("model") == "tiny-llama")


def test_a_template_is_written_and_run(visit: Visit) -> None:
    page = visit("challenge", model="tiny-llama", part="write a template")
    page.get_by_text("2 tests, 68 cases").wait_for()
    field = page.get_by_label("A suite in YAML")
    text = field.input_value()
    write(page, "A suite in YAML", text.replace("kind: MFT", "kind: MTF"))
    page.get_by_role("alert").get_by_text("the template, line 11: ").wait_for()
    write(page, "A suite in YAML", text.replace("{thing}", "{thign}"))
    page.get_by_role("alert").get_by_text("thign").first.wait_for()
    said = page.get_by_role("alert").inner_text()
    assert said.startswith("the template, line 12: slot {thign} has no lexicon")
    write(page, "A suite in YAML", text)
    page.get_by_role("button", name="Run", exact=True).click()
    settle(page)
    body = view_of(page, "my suite ·").locator("body")
    for name in ("negated praise", "typing errors change nothing"):
        body.get_by_text(name).first.wait_for()


def test_runs_are_compared(visit: Visit) -> None:
    page = visit("evaluation")
    choose(page, "Task", "t")
    board = view_of(page, "t: accuracy, n = 10").locator("body").inner_text()
    assert board.index("tiny-llama") < board.index("tiny-bert")  # 0.9 before 0.2
    page.get_by_role("radio", name="compare").click()
    settle(page)
    options = sorted(p for p in address_options(page, "First run") if "-first-" in p or "-second-" in p)
    choose(page, "First run", options[0])
    choose(page, "Second run", options[1])
    # 8 items only the first gets right, 1 only the second: exact McNemar p = 2 (1 + 9) / 2^9 = 0.039
    page.get_by_text("Both right 1, first alone 8, second alone 1, neither 0.").wait_for()
    assert "tiny-llama is better by 70.0 points" in page.locator("[data-testid=stMain] li").first.inner_text()
    page.get_by_role("radio", name="examples").click()
    settle(page)
    choose(page, "Run", options[0])
    page.get_by_label("Containing").fill("number 3")
    page.get_by_label("Containing").press("Enter")
    settle(page)
    page.get_by_text("1 example;").wait_for()
    choose_row(page)
    page.get_by_role("button", name="Inspect", exact=True).click()
    page.get_by_role("heading", name="Inspect").wait_for()
    settle(page)
    text = page.get_by_label("Text", exact=True)
    eventually(page, lambda: text.input_value() == "the cat number 3 sat")


def address_options(page: Any, label: str) -> list[str]:
    """What a choice offers."""
    page.get_by_role("combobox", name=label, exact=True).click()
    options = list(page.get_by_role("option").all_inner_texts())
    page.keyboard.press("Escape")
    return options


def test_broken_runs_are_told_and_one_is_deleted(visit: Visit, dashboard: tuple[str, Path]) -> None:
    runs = dashboard[1]
    (runs / "half").mkdir(exist_ok=True)
    (runs / "half" / "run.json").write_text('{"schema_version": 1, "id": "half"')
    (runs / "other-schema").mkdir(exist_ok=True)
    (runs / "other-schema" / "run.json").write_text('{"schema_version": 99}')
    page, second = visit("runs"), visit("runs", run="half")
    choose(page, "Open", "half")
    page.get_by_role("alert").get_by_text("half/run.json").first.wait_for()
    choose(page, "Open", "other-schema")
    page.get_by_role("alert").get_by_text("has schema version 99").wait_for()
    choose(page, "Open", "half")
    for one in (page, second):  # two people delete one run
        one.get_by_role("button", name="Delete this run").click()
        one.get_by_role("button", name="Delete", exact=True).wait_for()
    for one in (page, second):
        one.get_by_role("button", name="Delete", exact=True).click()
        settle(one)
    page.get_by_text("half was deleted.").wait_for()
    second.get_by_text("half is not there any more; someone else deleted it").wait_for()
    assert not (runs / "half").exists()


def test_no_training_says_how_to_start_one(visit: Visit) -> None:
    page = visit("training")
    page.get_by_text("workbench train --preset llama-tiny").wait_for()


def test_a_second_look_at_the_same_text_is_its_own(visit: Visit) -> None:
    pages = [
        visit(text=f"the {word} sat") for word in ("cat", "dogs", "key", "keys", "mat", "table", "cats", "on")
    ]
    words = ["mat", "table", "cats", "on", "cat", "dogs", "key", "keys"]
    for page, word in zip(pages, words, strict=True):  # eight sessions; all change before any is read
        page.get_by_label("Text", exact=True).fill(f"a {word} ran")
        page.get_by_label("Text", exact=True).press("Control+Enter")
    for page, word in zip(pages, words, strict=True):
        settle(page)
        view_of(page, "Attention, head").locator(".tokens.from .text", has_text="ran").wait_for()
        assert tokens(page) == ["<s>", "a", word, "ran", "</s>"]
