"""Every block of docs/extending.md runs in a process of its own, and does what the page says."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from tests.examples import ROOT, Outcome, run_each

pytestmark = pytest.mark.timeout(3000)  # all examples run in the set-up of the first test

_PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
_SECTIONS = {part.splitlines()[0]: part for part in re.split(r"^## ", _PAGE, flags=re.M)[1:]}
_FENCE = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```', flags=re.M | re.S)
# section -> what holds after its block ran; the runs' numbers are those of two or more items, so n says all were asked
_CHECKS = {
    "A function of your own as a model": "assert len(run.results) > 10 and same.labels == predict.labels",
    "A task in a YAML file": 'assert run.results["capitals"]["accuracy"].n == 2',
    "Your own rows as a task": 'assert run.results["questions"]["accuracy"].n == 2',
    "Your own challenge set in a table": 'assert run.results["agreement"]["accuracy"].n == 2',
    "A task by its type, in Python": 'assert run.results["capitals"]["accuracy"].n == 2',
    "A task of another type": 'assert run.results["capitals"]["accuracy"].n == 2',
    "A suite of behavioural tests": 'assert {"good weather", "a name changes nothing"} <= {'
    'name.split("/")[-1] for name in run.results}',
    "A challenge set": 'assert run.results["be"]["accuracy"].n == 2',
    "A probe task": "assert len(report.series[report.metric]) == 5",
    "A probe": 'assert report.probe == "centroid" and len(report.series[report.metric]) == 5',
    "A saliency method": "assert len(scores) == len(scores.tokens) > 3",
    "A position encoding": "assert model(torch.tensor([[1, 2, 3]])).last_hidden_state.shape[:2] == (1, 3)",
    "A model family": "assert difference < 1e-5",
    "A page of the dashboard": 'assert not page.exception and page.title[0].value == "Sizes"',
    "A tab of the page Inspect": 'assert not page.exception and "bits" in page.dataframe[0].value',
}


@dataclass(frozen=True)
class _Block:
    language: str
    title: str
    text: str


_BLOCKS = {name: [_Block(*found) for found in _FENCE.findall(part)] for name, part in _SECTIONS.items()}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory) -> dict[str, Outcome]:
    codes, files = {}, {}
    for name, blocks in _BLOCKS.items():
        (program,) = [block.text for block in blocks if not block.title]
        codes[name] = f"{program}\n{_CHECKS[name]}\n"
        files[name] = {block.title: block.text for block in blocks if block.title}
    return run_each(codes, tmp_path_factory.mktemp("extending"), files)


def test_each_section_says_what_it_touches_and_is_short():
    assert list(_SECTIONS) == list(_CHECKS)
    for name, part in _SECTIONS.items():
        assert re.search(r"^Touches: ", part, flags=re.M), name
        for block in _BLOCKS[name]:
            assert len(block.text.splitlines()) < 45, block.text


@pytest.mark.parametrize("name", ["A task in a YAML file", "A task by its type, in Python"])
def test_a_task_by_its_type_is_short(name):
    counted = [block for block in _BLOCKS[name] if block.language != "text"]
    assert all(len([line for line in b.text.splitlines() if line.strip()]) <= 12 for b in counted)


@pytest.mark.parametrize("name", _SECTIONS)
def test_the_files_that_it_touches_exist(name):
    touches = re.search(r"^Touches: (.*?)\n\n", _SECTIONS[name], flags=re.M | re.S)
    assert touches is not None
    for path in re.findall(r"`((?:workbench|probes|challenge_sets|tests)/[\w./]*)`", touches[1]):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("name", _SECTIONS)
def test_a_block_runs_and_does_what_it_says(name, outcomes):
    assert outcomes[name].status == 0, outcomes[name].output
    assert outcomes[name].output.strip(), "it prints what it made"
