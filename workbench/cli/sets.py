"""``workbench sets``: the challenge sets and suites, and the files that each wants."""

from __future__ import annotations

import click

from workbench.citations import cited_as, papers
from workbench.cli.tasks import show
from workbench.terminal import say

__all__ = ["command"]


@click.command(name="sets")
@click.argument("name", required=False)
def command(name: str | None) -> None:
    """List the challenge sets and suites with the files that each wants; or show one of them.

    \b
    workbench sets
    workbench sets blimp
    workbench sets sentiment
    workbench sets pairs.tsv
    """
    from challenge_sets.checking import find_set
    from challenge_sets.suite import load_suites, suite_names
    from challenge_sets.tasks import set_names
    from workbench.cli._tables import table
    from workbench.errors import UnknownName
    from workbench.evaluate import TASKS

    sets, suites = set_names(), suite_names()
    if name in suites:
        _show_suite(name)
    elif name is not None:
        try:
            show(find_set(name))
        except UnknownName:
            raise UnknownName("set or suite", name, [*sets, *suites]) from None
    else:
        tasks = [TASKS.get(one) for one in sets]
        say(table(("set", "files", "about"), [(t.name, _files(t), t.about) for t in tasks]))
        rows = [(s.name, f"{len(s.tests)}", ", ".join(s.labels)) for n in suites for s in load_suites(n)]
        say("\n" + table(("suite", "tests", "labels"), rows))
        say(
            "\na file is also found under another name by its columns or keys; FILE may be a table of your own:"
        )
        say(
            "minimal pairs (good, bad), or contrast sets (original, altered and the label of each), which may also be"
        )
        say(
            "two files with original and altered (changed, edited, contrast) in their names: tables, or CoNLL-U"
        )
        say("next: workbench check MODEL --set NAME --data-dir DIR, or --set FILE, or --suite NAME")


def _files(task: object) -> str:
    return getattr(task, "files", "") or "none"


def _show_suite(name: str) -> None:
    from challenge_sets.suite import load_suites
    from workbench.cli._tables import table

    (suite,) = load_suites(name)
    say(f"{suite.name}: {suite.description or 'behavioural tests'}")
    say(f"labels: {', '.join(suite.labels)}")
    say(f"{cited_as(papers('suite', suite.name))}\n")
    rows = [(test.capability, test.name, str(test.kind), f"{len(test.cases)}") for test in suite.tests]
    say(table(("capability", "test", "kind", "cases"), rows))
