"""The one reader of YAML: plain data, small aliases, no exception but a line of ours."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from workbench.errors import ConfigError, WorkbenchError
from workbench.evaluate.finetuned import read_recipe
from workbench.evaluate.grid import read_grid
from workbench.models.configuration import TransformerConfig
from workbench.training.settings import TrainSettings
from workbench.yaml_reader import parse, read_values

# Ten levels of ten aliases each: written out, ten thousand million values in 400 bytes.
LAUGHS = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 11))
RECURSIVE = "version: &v\n  again: *v\n"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 2020-99-99\nb: 2020-01-31", {"a": "2020-99-99", "b": "2020-01-31"}),  # no dates
        ("lr: 1e-3", {"lr": 0.001}),  # a number in YAML 1.2
        (r'face: "\ud83d\ude00"', {"face": "\U0001f600"}),  # RFC 8259, section 7: a pair is one character
        ("a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}", {"a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 3}}),
        ("- &few [1, 2]\n- *few\n- *few", [[1, 2]] * 3),
    ],
)
def test_plain_data_is_read(text, value):
    assert parse(text, "f.yaml") == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LAUGHS, "f.yaml, line 5: its aliases add up to more than 10,000 values"),
        (RECURSIVE, "f.yaml, line 1: an alias names what contains it"),
        ("a: &a\n- b: *a\n", "f.yaml, line 1: an alias names what contains it"),
        ('x: 1\nname: "half \\ud83d"', r"f.yaml, line 2: the text has the lone surrogate \ud83d"),
        ("a: 1\nb: 2\na: 3", "f.yaml, line 3: key 'a' stands twice"),
        ("a: 1\n1: 2\n'1': 3", "f.yaml, line 3: key '1' stands twice"),
        ("a: !!python/name:os.system x", "is not allowed"),
        ("a: 0b_", "f.yaml, line 1: '0b_' is no number"),
        (f"a: {'9' * 5000}", "is no number that can be read"),
        ("a: b\x1b", "line 1 is not valid YAML: character U+001B is not allowed"),
        ("a: {b", "f.yaml, line 1 is not valid YAML"),
        ("[" * 3000, "nested too deeply"),
        ("", "f.yaml is empty"),
    ],
)
def test_what_is_no_plain_data_is_refused_in_one_line(text, message):
    with pytest.raises(ConfigError) as caught:
        parse(text, "f.yaml")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


READERS = {
    "values": read_values,
    "grid": read_grid,
    "recipe of fine-tuning": read_recipe,
    "recipe of training": lambda path: TrainSettings.from_yaml(path.read_text()),
    "configuration": lambda path: TransformerConfig.from_yaml(path.read_text()),
}


@pytest.mark.parametrize("text", [LAUGHS, RECURSIVE], ids=["multiplying", "recursive"])
@pytest.mark.parametrize("reader", READERS)
def test_every_reader_refuses_such_aliases(reader, text, tmp_path):
    path = tmp_path / "file.yaml"
    path.write_text(text)
    with pytest.raises(WorkbenchError, match="alias"):
        READERS[reader](path)


def test_suites_and_the_page_s_editor_refuse_them_too(tmp_path):
    from challenge_sets.suite import load_suites

    path = tmp_path / "suite.yaml"
    for text in (LAUGHS, RECURSIVE):
        path.write_text(text)
        with pytest.raises(WorkbenchError, match="alias"):
            load_suites(str(path))


def test_yaml_is_parsed_in_one_place():
    """PyYAML's own loaders have neither limit; the package's files but one may only write YAML."""
    root = Path(__file__).parents[2]
    files = [
        f for package in ("workbench", "probes", "challenge_sets") for f in (root / package).rglob("*.py")
    ]
    calls = re.compile(r"yaml\.(safe_|full_|unsafe_)?(load|compose|parse)\w*\(")
    found = [f.name for f in files if calls.search(f.read_text(encoding="utf-8"))]
    assert found == ["yaml_reader.py"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "models: [m]\ntasks: [lambada_sample]\nseed: 2020-99-99",
            "seed is '2020-99-99'; allowed: a whole number",
        ),
        ("models: [m]\ntasks: [lambada_sample]\nseed: -1", "seed is -1; allowed: from 0 to 4294967295"),
        ("models: [m]\ntasks: [lambada_sample]\nlimit: .inf", "limit is inf; allowed: a whole number"),
        ("models: [m]\ntasks: [lambada_sample]\nchat: maybe", "chat is 'maybe'; allowed: true or false"),
        ("models: [m]\ntasks: [{a: 1}]", "allowed: a list of names"),
        ("models: [m]\ntasks: [lambada_sample]\nbatch_tokens: [1]", "batch_tokens is [1]"),
        ("models: [m]\ntasks: [lambada_sample]\ndoctor: 2020-01-01", "doctor is '2020-01-01'"),
        ("models: [{name: m, dtype: 3}]\ntasks: [lambada_sample]", "model dtype is 3; allowed: a text"),
        ("? [1]\n: 2", "unhashable key"),
    ],
)
def test_odd_scalars_in_a_grid_are_named(text, message, tmp_path):
    path = tmp_path / "grid.yaml"
    path.write_text(text)
    with pytest.raises(WorkbenchError) as caught:
        read_grid(path)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "model: {preset: gpt2}\ndata: {corpus: 2020-99-99}\noptimisation: {lr: fast}",
            "optimisation.lr is 'fast'",
        ),
        ("model: {preset: gpt2}\ndata: {corpus: x}\noptimisation: {seed: -1}", "optimisation.seed is -1"),
        ("model: {preset: gpt2}\ndata: {corpus: x}\nloop: {report_to: 3}", "loop.report_to is 3"),
        ("model: {preset: gpt2}\ndata: {corpus: x, length: .nan}", "data.length is nan"),
        ("model: {preset: [gpt2]}\ndata: {corpus: x}", "model.preset is"),
        ("model: {preset: gpt2}\ndata: {}", "data lacks corpus"),
        ("model: {preset: gpt2}", "a recipe lacks data"),
    ],
)
def test_odd_scalars_in_a_training_recipe_are_named(text, message):
    with pytest.raises(ConfigError) as caught:
        TrainSettings.from_yaml(text)
    assert message in str(caught.value)


def test_odd_scalars_in_a_fine_tuning_recipe_are_named(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text("version: 1\ndefault: {epochs: 2020-99-99}\n")
    with pytest.raises(ConfigError, match="default: epochs is '2020-99-99'; allowed: a number"):
        read_recipe(path)
