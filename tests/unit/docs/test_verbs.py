"""Each verb has a page, and the page shows the help that the verb has now."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from workbench.cli import COMMANDS, cli

PAGES = Path(__file__).parents[3] / "docs" / "verbs"


@pytest.mark.parametrize("verb", sorted(COMMANDS))
def test_the_page_shows_the_present_help_and_an_example(verb):
    page = (PAGES / f"{verb}.md").read_text(encoding="utf-8")
    run = CliRunner().invoke(cli, [verb, "--help"], prog_name="workbench", terminal_width=78)
    shown = run.output.rstrip()
    assert page.endswith(f"## Options\n\n```text\n{shown}\n```\n"), f"python docs/write_verbs.py {verb}"
    assert f"$ workbench {verb}" in page or verb == "dashboard"


def test_the_index_lists_every_verb():
    index = (PAGES / "index.md").read_text(encoding="utf-8")
    assert [verb for verb in sorted(COMMANDS) if f"({verb}.md)" not in index] == []
