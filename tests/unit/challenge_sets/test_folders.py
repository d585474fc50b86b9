"""Where files come from: a folder, or a data set repository on the hub (its client replaced by a stand-in)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from challenge_sets.checking import find_set
from workbench.errors import DataError
from workbench.evaluate import TaskOptions


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """A hub whose one repository is ``tmp_path``; what it was asked is kept."""
    asked: dict[str, Any] = {}

    def snapshot_download(name: str, **options: Any) -> str:
        asked.update(options, name=name)
        if options["local_files_only"]:
            raise OSError("no snapshot in the cache")
        return str(tmp_path)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    monkeypatch.setattr("workbench.pretrained.hub_answers", lambda: not asked.get("down", False))
    return asked


def test_blimp_comes_from_the_hub_without_a_folder(hub: dict[str, Any], tmp_path: Path) -> None:
    rows = [
        {"sentence_good": "a", "sentence_bad": "b", "UID": "npi_present_1", "pair_id": 7, "field": "syntax"}
    ]
    (tmp_path / "npi_present_1").mkdir()
    pd.DataFrame(rows).to_parquet(tmp_path / "npi_present_1" / "train-00000-of-00001.parquet")
    data = find_set("blimp").load(None)
    (pair,) = (item.fields["item"] for item in data.items)
    assert (hub["name"], hub["repo_type"]) == ("nyu-mll/blimp", "dataset")
    assert (pair.id, pair.phenomenon, pair.good) == ("npi_present_1-7", "npi_licensing", "a")
    assert data.identity.source == "hub:nyu-mll/blimp"


def test_any_repository_with_the_files_can_be_named(hub: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "winogrande.jsonl").write_text(
        '{"context_options": ["the cat", "the dog"], "continuation": "ran", "gold": 0}\n'
    )
    data = find_set("wsc", TaskOptions(data_dir="hub:someone/schemas/data")).load(None)
    assert (hub["name"], len(data.items)) == ("someone/schemas", 1)


@pytest.mark.parametrize("place", ["hub:name", "hub:", "hub:a/b/../../etc"])
def test_other_places_are_refused(place: str) -> None:
    with pytest.raises(DataError, match="no place on the hub; write hub:owner/name"):
        find_set("blimp", TaskOptions(data_dir=place)).load(None)


def test_a_hub_that_does_not_answer_is_one_line(hub: dict[str, Any]) -> None:
    hub["down"] = True
    with pytest.raises(DataError, match="the hub does not answer; set blimp reads BLiMP's"):
        find_set("blimp").load(None)
