"""Data sets on the hub where a file is taken; the datasets package reads a folder as it reads the hub."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from challenge_sets.checking import find_set
from probes import load_task
from tests.helpers import run_command
from tests.model_folders import save_llama
from workbench import pretrained
from workbench.data.choices import CHOICE_SOURCES
from workbench.data.corpus import read_corpus
from workbench.data.corpus_stream import corpus_hash, stream_corpus
from workbench.data.hub import HubName, hub_rows
from workbench.data.lambada import read_lambada
from workbench.data.tables import read_rows, table_name
from workbench.errors import DataError, TaskError
from workbench.evaluate._names import expand
from workbench.evaluate.tasks.task_file import read_task
from workbench.scoring.regions import read_sentences
from workbench.training.finetuning import tasks as finetuning_tasks

datasets = pytest.importorskip("datasets", reason="pip install datasets")

QUESTIONS = [
    {"query": "the cats sat on the", "choices": [" mat", " key"], "gold": 0},
    {"query": "a key is on the", "choices": [" mat", " table"], "gold": 1},
]
PAIRS = [{"good": "the cats sat", "bad": "the cats is"}, {"good": "the cat is", "bad": "the cat are"}]
TEXTS = [{"text": "the cats sat", "label": 1}, {"text": "dogs ran", "label": 0}]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Questions in two splits of one data set, pairs and texts with named classes in two others."""
    place = tmp_path / "sets"
    _write(QUESTIONS, place / "questions" / "train.jsonl")
    _write(QUESTIONS[::-1], place / "questions" / "test.jsonl")
    _write(PAIRS, place / "pairs" / "train.jsonl")
    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["bad", "good"])}
    )
    (place / "texts").mkdir()
    datasets.Dataset.from_list(TEXTS, features=features).to_parquet(str(place / "texts" / "train.parquet"))
    return place


def _write(rows: list[dict[str, Any]], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(map(json.dumps, rows)))


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("hub:me/set", ("me/set", None, None, None)),
        ("hub:me/set@v1.0", ("me/set", "v1.0", None, None)),
        ("hub:me/set@refs/pr/1:sst2:test", ("me/set", "refs/pr/1", "sst2", "test")),
        ("hub:me/set::test", ("me/set", None, None, "test")),
        ("hub:me/set:sst2", ("me/set", None, "sst2", None)),
    ],
)
def test_the_parts_of_a_name(name: str, parts: tuple[str | None, ...]) -> None:
    found = HubName.parse(name)
    assert (found.path, found.revision, found.configuration, found.split) == parts
    assert str(found) == name
    assert table_name(name) == "set"


@pytest.mark.parametrize("name", ["hub:", "hub:me/set@", "hub:me/set:a:b:c", "hub:me/set@a@b"])
def test_a_name_of_another_form_is_one_line(name: str) -> None:
    with pytest.raises(DataError, match="write hub:owner/name") as error:
        HubName.parse(name)
    assert "\n" not in str(error.value)


def test_revision_configuration_and_split_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def load_dataset(*names: Any, **options: Any) -> Any:
        asked.append((*names, options["split"], options["revision"]))
        return datasets.Dataset.from_list(QUESTIONS)

    monkeypatch.setattr("workbench.data.hub.hub_answers", lambda: True)
    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    rows = list(hub_rows("hub:me/set@v2:easy:test"))
    assert asked == [("me/set", "easy", "test", "v2")]
    assert rows[1] == ("hub:me/set@v2:easy:test, row 1", QUESTIONS[1])


def test_without_a_network_it_is_one_line_and_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.data.hub.hub_answers", lambda: False)
    before = datasets.config.HF_HUB_OFFLINE
    started = time.monotonic()
    with pytest.raises(DataError, match="cannot read hub:no/such-set: the hub does not answer") as error:
        next(hub_rows("hub:no/such-set"))
    assert time.monotonic() - started < 25
    assert "\n" not in str(error.value)
    assert datasets.config.HF_HUB_OFFLINE is before


@pytest.mark.parametrize("name", ["json", "text", "csv", "pandas", "a/b/c", "../sets/x"])
def test_readers_of_the_package_are_no_data_sets(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _write(TEXTS, tmp_path / "rows.jsonl")
    with pytest.raises(DataError, match="write hub:owner/name") as error:
        next(hub_rows(f"hub:{name}"))
    assert "\n" not in str(error.value)


def test_a_folder_that_is_called_as_a_reader_is_a_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "texts").rename(folder / "json")
    monkeypatch.chdir(folder)
    assert [row["text"] for _, row in hub_rows("hub:json")] == ["the cats sat", "dogs ran"]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ConnectionError("Offline mode is enabled."), r"not fetched before \(Offline mode is enabled.\)$"),
        (ValueError("Unknown split \"tset\".\nOne of ['test']"), r'Unknown split "tset". One of \[.test.\]$'),
        (IndexError(), "IndexError$"),
    ],
)
def test_without_a_network_a_misspelt_split_is_told(
    error: Exception, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load_dataset(*names: Any, **options: Any) -> Any:
        raise error

    monkeypatch.setattr("workbench.data.hub.hub_answers", lambda: False)
    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    with pytest.raises(DataError, match=told) as raised:
        next(hub_rows("hub:me/set::tset"))
    assert ("does not answer" in str(raised.value)) is isinstance(error, ConnectionError)


class _Broken:
    """A split that is read halfway."""

    features = None

    def __iter__(self) -> Any:
        yield {"text": "the cats sat"}
        raise IndexError

    def __getitem__(self, column: str) -> Any:
        raise IndexError


@pytest.mark.parametrize(
    "read",
    [
        lambda: list(hub_rows("hub:me/set::train")),
        lambda: list(stream_corpus("hub:me/set")),
        lambda: CHOICE_SOURCES["piqa"].read(None),
        lambda: read_lambada("lambada_openai"),
        lambda: finetuning_tasks.load_task("hub:me/set::train"),
    ],
)
def test_rows_that_cannot_be_read_are_one_line(
    read: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workbench.data.hub.hub_answers", lambda: True)
    monkeypatch.setattr(datasets, "load_dataset", lambda *names, **options: _Broken())
    with pytest.raises(DataError, match=r"cannot read hub:.*: IndexError") as error:
        read()
    assert "\n" not in str(error.value)


def test_rows_are_read_as_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.data.hub.hub_answers", lambda: True)
    monkeypatch.setattr(datasets, "load_dataset", lambda *names, **options: _Broken())
    assert read_corpus("hub:me/set::train", 1).lines == ["the cats sat"]


def test_a_corpus_leaves_out_rows_without_a_text(tmp_path: Path) -> None:
    _write([{"text": text} for text in (None, " ", "one", None, "two")], tmp_path / "c" / "train.jsonl")
    assert read_corpus(f"hub:{tmp_path}/c").lines == ["one", "two"]
    assert read_corpus(f"hub:{tmp_path}/c", 1).lines == ["one"]
    _write([{"text": ""}, {"text": "\t"}], tmp_path / "blank" / "train.jsonl")
    with pytest.raises(DataError, match="has no rows with a text"):
        read_corpus(f"hub:{tmp_path}/blank", 1)


def test_the_hash_of_a_folder_is_of_its_files(folder: Path) -> None:
    name = f"hub:{folder}/questions"
    before = corpus_hash(name)
    (folder / "questions").rename(folder / "moved")
    assert corpus_hash(f"hub:{folder}/moved") == before != corpus_hash(f"hub:{folder}/moved::test")
    _write(QUESTIONS[:1], folder / "moved" / "test.jsonl")
    assert corpus_hash(f"hub:{folder}/moved") != before


def test_the_hub_is_asked_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def refuse(address: Any, timeout: float) -> None:
        asked.append(address)
        raise OSError

    clock = [0.0]
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr(pretrained, "socket", SimpleNamespace(create_connection=refuse))
    monkeypatch.setattr(pretrained, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    assert [pretrained.hub_answers() for _ in range(3)] == [False] * 3
    assert len(asked) == 1
    clock[0] = 61.0
    pretrained.hub_answers()
    assert len(asked) == 2


def test_two_splits_of_one_set_are_not_one_task(folder: Path) -> None:
    names = [f"hub:{folder}/questions::{split}" for split in ("train", "test")]
    with pytest.raises(TaskError, match="are both called 'questions'"):
        expand(names)
    assert expand([names[0], names[0]]) == expand(names[1:]) == ("questions",)


def test_several_splits_of_which_none_is_named(folder: Path) -> None:
    with pytest.raises(DataError, match=r"has the splits train, test; name one: hub:.*questions::test"):
        next(hub_rows(f"hub:{folder}/questions"))
    with pytest.raises(DataError, match="cannot read hub:"):
        next(hub_rows(f"hub:{folder}/nothing"))


def test_every_reader_of_tables_takes_it(folder: Path) -> None:
    assert read_rows(Path(f"hub:{folder}/questions::test")) == QUESTIONS[::-1]
    named = [{**row, "label": ["bad", "good"][row["label"]]} for row in TEXTS]
    assert read_rows(Path(f"hub:{folder}/texts")) == named
    corpus = read_corpus(f"hub:{folder}/texts", 1)
    assert (corpus.lines, corpus.identity.name) == (["the cats sat"], "texts")
    assert [piece.text for piece in stream_corpus(f"hub:{folder}/texts")] == ["the cats sat", "dogs ran"]
    assert [s.text for s in read_sentences(Path(f"hub:{folder}/texts"))] == ["the cats sat", "dogs ran"]
    task = read_task(f"hub:{folder}/questions::train")
    assert (task.name, len(task.load(None).items)) == ("questions", 2)
    declared = folder / "mine.yaml"
    declared.write_text(
        f"name: mine\ntype: multiple_choice\nprompt: '{{query}}'\nchoices: choices\nanswer: gold\n"
        f"data: hub:{folder}/questions::test\n"
    )
    assert len(read_task(declared).load(None).items) == 2
    probed = load_task("table", f"hub:{folder}/texts")
    assert [item.label for item in probed.items] == ["good", "bad"]
    assert probed.identity.name == "texts"
    pairs = find_set(f"hub:{folder}/pairs").load(None)
    assert [item.fields["item"].good for item in pairs.items] == ["the cats sat", "the cat is"]


def test_the_verbs(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model = str(save_llama(tmp_path / "llama"))
    done = run_command("evaluate", model, "--task", f"hub:{folder}/questions::test", "--no-doctor", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["results"]["questions"]["accuracy"]["n"] == 2
    done = run_command("check", model, "--set", f"hub:{folder}/pairs", "--no-doctor", "--json")
    assert done.returncode == 0, done.stderr
    done = run_command("surprisal", model, f"hub:{folder}/texts", "--json")
    assert done.returncode == 0, done.stderr
    assert [row["word"] for row in json.loads(done.stdout)["words"]] == ["the", "cats", "sat", "dogs", "ran"]
    done = run_command("attend", model, "--corpus", f"hub:{folder}/texts", "--no-doctor", "--json")
    assert done.returncode == 0, done.stderr
    done = run_command("tasks", f"hub:{folder}/pairs")
    assert done.returncode == 0, done.stderr
    assert "columns: good, bad" in done.stdout
    done = run_command("evaluate", model, "--task", f"hub:{folder}/questions")
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
