"""Writes docs/citations.md: what is registered, and the papers to cite for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from workbench.citations import CITED, papers

PAGE = Path(__file__).parent / "citations.md"
HEADINGS = {
    "saliency method": "Saliency methods",
    "faithfulness measure": "Measures of faithfulness",
    "probe": "Probes",
    "probing task": "Probing tasks",
    "training on preferences": "Training on preferences",
    "metric": "Metrics",
    "task": "Tasks",
    "challenge set": "Challenge sets",
    "suite": "Suites",
    "analysis": "Analyses",
}
BEGINNING = """# What to cite

If this workbench gives you a number for a paper, cite it (`CITATION.cff`) and the paper of the method, task or set that
gave the number. The same papers stand in `workbench tasks NAME` and `workbench sets NAME`, under *To cite* in
reports, on the pages of the dashboard, and in Python: `workbench.citations.papers("saliency method", "lime")`, whose
`bibtex` is the entry. All entries: `workbench.citations.BIBLIOGRAPHY`, a BibTeX file. What is not here needs no paper,
or is this workbench's own. What you register yourself is cited once its name stands there too:
`workbench.citations.CITED["saliency method"]["mine"] = "sundararajan2017"`.
"""


def names_of(kind: str) -> list[str]:
    """The registered names of a kind, in their order; of analyses, which have no registry, those of the table."""
    from challenge_sets.suite import suite_names
    from challenge_sets.tasks import set_names
    from probes.experiment import PROBE_KINDS
    from probes.tasks import TASKS as PROBING
    from workbench.analysis.faithfulness import MEASURES
    from workbench.analysis.saliency import METHODS
    from workbench.evaluate import TASKS, register_tasks
    from workbench.evaluate.metrics import METRICS
    from workbench.training.preferences.settings import LOSSES, AlignMethod

    register_tasks()
    registered = {
        "saliency method": METHODS,
        "faithfulness measure": MEASURES,
        "probe": PROBE_KINDS,
        "probing task": PROBING,
        "training on preferences": [
            *(*AlignMethod, *LOSSES[AlignMethod.DPO][1:]),
            *("gold reward", "margin", "centring", "ensemble"),
        ],
        "metric": METRICS,
        "task": [name for name in TASKS if name not in set_names()],
        "challenge set": set_names(),
        "suite": [*suite_names(), "rewrites:NAME"],
    }
    return list(registered.get(kind, CITED[kind]))


def lines() -> Iterator[str]:
    """The page."""
    yield BEGINNING
    for kind, heading in HEADINGS.items():
        yield f"## {heading}\n\n| {kind} | to cite |\n|---|---|"
        rows: dict[tuple[str, ...], list[str]] = {}
        for name in names_of(kind):
            found = tuple(f"[{p}]({p.url})" if p.url else str(p) for p in papers(kind, name))
            if found:
                rows.setdefault(found, []).append(f"`{name}`" if kind != "analysis" else name)
        for cited, names in rows.items():
            # the members of a large group, such as BIG-Bench Hard's, go by the group
            shown = names if len(names) < 12 else [f"`{names[0].strip('`').split('/')[0]}/…`"]
            yield f"| {', '.join(shown)} | {'; '.join(cited)} |"
        yield ""


if __name__ == "__main__":
    PAGE.write_text("\n".join(lines()), encoding="utf-8")
