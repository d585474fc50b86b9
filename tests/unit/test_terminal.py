"""What is printed: nothing that a terminal obeys, whatever a file or an argument holds."""

from __future__ import annotations

import ast
import json
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzzing.run import harmful
from workbench.characters import neutral
from workbench.cli import main
from workbench.cli._tables import table
from workbench.terminal import counted, say, say_json

STEERING = "\x1b[31m\x07\x9b2J\u202eabc\u2066\u200b\x7f\ud83d\r\t"


@pytest.mark.parametrize(
    ("number", "noun", "words"),
    [(1, "text", "1 text"), (0, "text", "0 texts"), (2000, "text", "2,000 texts"), (2, "class", "2 classes")],
)
def test_a_noun_is_plural_unless_there_is_one(number, noun, words):
    assert counted(number, noun) == words


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=())))  # every code point, surrogates too
def test_nothing_is_left_that_a_terminal_obeys(text):
    shown = neutral(text, keep="\n")
    assert not harmful(shown)
    assert shown.count("\n") == text.count("\n")


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=())))
def test_json_stays_the_same_data(text):
    """The escapes are JSON's own: what a reader gets back is what was given."""
    assert json.loads(neutral(json.dumps(text, ensure_ascii=False))) == text


def test_text_of_all_languages_is_printed_as_it_is():
    text = "naïve 你好 नमस्ते می‌خواهم 👩‍🚀 e\u0301 \\begin{x}"  # joiners belong to Persian and to emoji
    assert neutral(text) == text


def test_cells_of_tables_stay_in_their_row():
    shown = table(("a", "b"), [("x\ny\u202e", "1"), (STEERING, "2")])
    assert shown.count("\n") == 3  # header, rule, two rows
    assert not harmful(shown)


def test_say_and_say_json(capsys):
    say(STEERING)
    say(f"two\nlines {STEERING}", error=True)
    say_json({"a": STEERING}, indent=1)
    out, err = capsys.readouterr()
    assert not harmful(out + err)
    assert json.loads(out.split("\n", 1)[1]) == {"a": STEERING}


@pytest.mark.parametrize(
    "words",
    [
        ["card", STEERING[:-3]],
        ["tokenize", "a", "\x1b[31m\u202e", "--model", "x"],
        ["\x1b[2Jverb"],
        ["--\x1b[2J"],
        ["evaluate", "m", "--task", "\u202e\x9b"],
        ["check", "m", "--suite", "steering.yaml"],
        ["report", "\x1b[2J"],
        ["grid", "\x9b.yaml"],
        ["doctor", "\x1b]0;title\x07"],
        ["tasks", "\ud83d"],
    ],
)
def test_a_mistake_is_one_harmless_line(words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    Path("steering.yaml").write_text('suite: "s\\e[31m\\u202e"\n"\\x9b\\e]0;x\\a": {}\n')
    with pytest.raises(SystemExit) as ended:
        main(words)
    out, err = capsys.readouterr()
    assert ended.value.code == 2
    assert not harmful(out + err)
    assert err.startswith("workbench: ")
    assert err.count("\n") == 1


def test_names_in_stored_runs_are_harmless_in_tables_and_in_json(capsys, tmp_path):
    from workbench.estimate import Estimate
    from workbench.runs import RunFolder, RunRecord

    record = RunRecord.new("evaluate", recipe={}, model={"name": STEERING}, data={}, seeds={}, label="x")
    folder = RunFolder.create(tmp_path, record)
    estimate = Estimate(value=0.5, standard_error=0.1, low=0.3, high=0.7, n=2)
    folder.finish({f"t{STEERING}": {f"m{STEERING}": estimate}}, {})
    for words in (["runs"], ["runs", "--json"], ["report", str(folder.path), "--format", "md"]):
        with pytest.raises(SystemExit) as ended:
            main([*words, *(["--root", str(tmp_path)] if words[0] == "runs" else [])])
        assert ended.value.code == 0
        assert not harmful(capsys.readouterr().out)


def test_everything_is_printed_by_one_function():
    """Neither ``print`` nor click's echo is called in the packages, but in the one module."""
    root = Path(__file__).parents[2]
    calls = {"print", "click.echo", "click.secho", "sys.stdout.write", "sys.stderr.write"}

    def prints(file: Path) -> bool:  # examples in docstrings do, and are no calls
        nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        return any(isinstance(node, ast.Call) and ast.unparse(node.func) in calls for node in nodes)

    files = [
        f for package in ("workbench", "probes", "challenge_sets") for f in (root / package).rglob("*.py")
    ]
    found = [f.name for f in files if prints(f)]
    assert found == ["terminal.py"]


def test_what_counts_as_harmful_covers_unicodes_own_classes():
    assert harmful("\x1b\x85\u202e\u2066\ud800") == list("\x1b\x85\u202e\u2066\ud800")
    assert unicodedata.category("\x85") == "Cc"
    assert harmful("a\nb 你 👩‍🚀") == []
