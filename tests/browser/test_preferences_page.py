"""A person votes on replies without knowing whose they are: keys and buttons, back, a reload, the result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Visit, eventually, settle
from tests.browser.hostile import HOSTILE
from tests.browser.test_dashboard import address, choose, view_of
from tests.unit.evaluate.test_voting import store_replies
from workbench.runs import Run, list_runs


@pytest.fixture
def replies(dashboard: tuple[str, Path]) -> Run:
    """Four prompts; what the second model writes does something if the page lets it."""
    pairs = [(f"plain {n}", HOSTILE[n]) for n in range(4)]
    return store_replies(dashboard[1], pairs)


def shown(page: Any) -> str:
    return str(page.locator("[data-testid=stMain]").inner_text())


def done(page: Any, text: str) -> None:
    page.get_by_text(text).first.wait_for()
    settle(page)


def hostile_key(page: Any) -> str:
    """The key of the side whose reply is the hostile one."""
    left = page.locator("[data-testid=stColumn]").first.inner_text()
    return "2" if "plain" in left else "1"


def test_a_vote_is_blind_is_stored_and_gone_on_with(
    visit: Visit, dashboard: tuple[str, Path], replies: Run
) -> None:
    page = visit("preferences")
    choose(page, "Replies", replies.path.name)
    page.get_by_label("Your name").fill("Ada <b>")
    page.get_by_role("button", name="Start").click()
    done(page, "0 of 4 comparisons voted on")
    assert "base" not in shown(page)
    assert "tuned" not in shown(page)
    page.keyboard.press(hostile_key(page))
    done(page, "1 of 4 comparisons voted on")
    page.keyboard.press("0")
    done(page, "2 of 4 comparisons voted on")
    page.get_by_role("button", name="Back").click()
    done(page, "Prompt 2")
    page.keyboard.press(hostile_key(page))
    done(page, "Prompt 3")
    eventually(page, lambda: "ballot" in address(page))
    page.reload()
    done(page, "2 of 4 comparisons voted on")
    done(page, "Prompt 3")
    for number in (3, 4):
        page.get_by_role("button", name="Left" if hostile_key(page) == "1" else "Right").click()
        done(page, f"{number} of 4 comparisons voted on")
    page.get_by_role("button", name="Finish").click()
    verdict = view_of(page, "Models compared by preference").locator("li").first
    verdict.wait_for()
    assert verdict.inner_text() == "base and tuned: no preference shown: base wins 0.0 % of 4 prompts"
    (stored,) = [run for run in list_runs(dashboard[1]) if run.record and run.record.verb == "vote"]
    rows = Run.open(stored.path).examples()
    assert set(rows["voter"]) == {"Ada <b>"}
    assert rows["preferred"].tolist().count("tuned") == 4
    assert len(rows) == 5  # the tie was changed


def test_nothing_is_decided_yet(visit: Visit) -> None:
    page = visit("preferences", preferences="make replies")
    page.get_by_role("button", name="Run").click()
    page.get_by_role("alert").get_by_text("choose two models or more").wait_for()
