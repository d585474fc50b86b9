"""Tasks declared in YAML files: what they ask, what they refuse."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

import workbench
from tests.unit.tiny import tiny_causal
from workbench.errors import ConfigError, DataError, TaskError
from workbench.evaluate.tasks.task_file import read_task
from workbench.scoring import Request, score

CHOICES = """\
name: be_or_is
type: multiple_choice
prompt: "the {subject} to the cabinet"
choices: ["{right}", "{wrong}"]
rows:
  - {subject: keys, right: are, wrong: is}
  - {subject: key, right: is, wrong: are}
"""


def _file(tmp_path: Path, text: str) -> str:
    path = tmp_path / "task.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_choices_are_scored_after_the_prompt(tmp_path):
    model = tiny_causal()
    run = workbench.evaluate(model, tasks=_file(tmp_path, CHOICES), out=tmp_path, doctor=False, limit=2)
    rows = run.examples()
    expected = score(model, [Request("the keys to the cabinet", f" {verb}") for verb in ("are", "is")])
    assert rows["log_probabilities"][0] == pytest.approx([one.log_probability for one in expected])
    right = [float(values[0] > values[1]) for values in rows["log_probabilities"]]
    assert run.results["be_or_is"]["accuracy"].value == sum(right) / 2


def test_a_changed_file_is_another_task(tmp_path):
    path = _file(tmp_path, CHOICES)
    before = read_task(path).version
    assert read_task(_file(tmp_path, CHOICES)).version == before
    assert read_task(_file(tmp_path, CHOICES.replace("cabinet", "table"))).version != before


def test_rows_come_from_a_file_beside_it(tmp_path):
    rows = [{"sentence": "cats sat", "label": "many"}, {"sentence": "the cat", "label": "one"}]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    text = 'name: number\ntype: classification\nprompt: "{sentence} is"\nlabels: [one, many]\n'
    task = read_task(_file(tmp_path, f"{text}words: [cat, cats]\ndata: rows.jsonl\n"))
    items = task.load(None).items
    assert [item.requests for item in items] == [
        (Request("cats sat is", " cat"), Request("cats sat is", " cats")),
        (Request("the cat is", " cat"), Request("the cat is", " cats")),
    ]
    assert [item.fields["gold"] for item in items] == [1, 0]


def test_generation_and_perplexity(tmp_path):
    text = "name: {}\ntype: {}\nrows:\n  - {{text: the cat sat, answer: ['on', mat]}}\n"
    generation = read_task(
        _file(tmp_path, text.format("w", "generation") + 'prompt: "{text}"\nmax_tokens: 3\n')
    )
    (item,) = generation.load(None).items
    assert (item.requests[0].text, item.requests[0].max_tokens) == ("the cat sat", 3)
    assert item.fields["references"] == ["on", "mat"]
    run = workbench.evaluate(
        tiny_causal(), tasks=_file(tmp_path, text.format("p", "perplexity")), out=tmp_path, doctor=False
    )
    whole = score(tiny_causal(), "the cat sat")
    assert run.results["p"]["token_perplexity"].value == pytest.approx(
        math.exp(-whole.log_probability / 3), rel=1e-5
    )


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (("type: multiple_choice", "type: multiple_choise"), ConfigError, "did you mean 'multiple_choice'"),
        (("prompt:", "promt:"), ConfigError, "unknown key 'promt'; did you mean 'prompt'"),
        (
            ("{subject} to", "{object} to"),
            DataError,
            r"row 1: cannot fill .*; its columns: subject, right, wrong",
        ),
        (("{subject} to", "{subject to"), DataError, "row 1: cannot fill"),
        (("right: are", "right: yes"), ConfigError, "YAML reads yes, on and true .* as True; quote it"),
        (("name: be_or_is", "name: glue"), TaskError, "the name 'glue' is taken"),
        (("choices: [", "answer: 5\nchoices: ["), DataError, "label 5 is outside the set; allowed: are, is"),
        (
            ("rows:\n", "data: none.jsonl\nrows:\n"),
            ConfigError,
            "under 'rows', or a file of them under 'data'",
        ),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path, change, error, message):
    path = _file(tmp_path, CHOICES.replace(*change))
    with pytest.raises(error, match=message):
        workbench.evaluate(tiny_causal(), tasks=path, out=tmp_path, doctor=False)
