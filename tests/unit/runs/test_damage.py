"""Bytes that changed on the disk are noticed, in unfinished and finished runs; runs without checksums stay readable."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from probes._checkpoints import PartCheckpoints
from tests.unit.runs.conftest import RECIPE
from workbench.errors import RunError
from workbench.runs import Run, RunFolder, RunRecord, RunState, list_runs
from workbench.statistics import Estimate

ESTIMATE = Estimate(value=0.5, standard_error=0.1, low=0.3, high=0.7, n=4)
ROWS = [
    {
        "id": f"item-{k}",
        "text": f"the cat {k} sat",
        "score": k / 7,
        "correct": k % 2 == 0,
        "words": ["a", "b"],
    }
    for k in range(40)
]
FLIPS = 600


def _state(path: Path) -> list[Any]:
    """Everything that a reader can be given of a run."""
    run = Run.open(path)
    arrays = {name: array.tolist() for name, array in sorted(run.arrays().items())}
    return [run.record, run.results, run.throughput, run.notes, arrays, run.examples().to_dict("list")]


def _flipped(content: bytes, bit: int) -> bytes:
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def _silently_wrong(run: Path, seed: int) -> tuple[int, int]:
    """Over ``FLIPS`` single-bit flips in the files of ``run``: how many were one line, how many gave other values.

    Anything but a :class:`RunError` is a traceback, and fails the test.
    """
    draw, right = random.Random(seed), _state(run)
    files = sorted(file for file in run.rglob("*") if file.is_file() and file.name != ".lock")
    noticed = wrong = 0
    for _ in range(FLIPS):
        file = draw.choice(files)
        content = file.read_bytes()
        file.write_bytes(_flipped(content, draw.randrange(8 * len(content))))
        try:
            wrong += str(_state(run)) != str(right)
        except RunError as error:
            noticed += "\n" not in str(error)
        file.write_bytes(content)
    assert str(_state(run)) == str(right)
    return noticed, wrong


def test_flips_in_an_unfinished_run(tmp_path: Path, record: RunRecord) -> None:
    folder = RunFolder.create(tmp_path, record)
    for start in range(0, len(ROWS), 20):
        folder.append(ROWS[start : start + 20])
    noticed, wrong = _silently_wrong(folder.path, seed=0)
    assert wrong == 0
    assert (
        noticed > 0.9 * FLIPS
    )  # the others are in blanks, or in the names of checksums, and change no value


def test_flips_in_a_finished_run(tmp_path: Path, record: RunRecord) -> None:
    folder = RunFolder.create(tmp_path, record)
    folder.append(ROWS)
    folder.save_arrays({"weights": np.arange(30.0), "layers": np.arange(4)})
    folder.finish({"toy": {"accuracy": ESTIMATE}}, {"tokens_per_second": 9.5}, {"policy": "sum"})
    noticed, wrong = _silently_wrong(folder.path, seed=1)
    assert wrong == 0
    assert noticed > 0.9 * FLIPS


def test_what_is_damaged_is_computed_again(tmp_path: Path, record: RunRecord) -> None:
    """For each of 200 flips in the second of two chunks: resuming knows the first one's ids only, and its rows."""
    folder = RunFolder.create(tmp_path, record)
    folder.append(ROWS[:20])
    folder.append(ROWS[20:])
    second = sorted((folder.path / "chunks").iterdir())[1]
    content, draw = second.read_bytes(), random.Random(2)
    for _ in range(200):
        second.write_bytes(_flipped(content, draw.randrange(8 * len(content))))
        again = RunFolder.resume(folder.path, RECIPE)
        assert again.finished_ids() == {row["id"] for row in ROWS[:20]}
        assert again.rows() == ROWS[:20]
        assert not second.exists()


def test_a_damaged_part_of_an_experiment_is_made_again(tmp_path: Path) -> None:
    kept = PartCheckpoints(tmp_path / "parts")
    kept("layer 1", lambda: {"x": np.arange(50.0)})
    (file,) = (tmp_path / "parts").iterdir()
    content, draw = file.read_bytes(), random.Random(3)
    for _ in range(50):
        file.write_bytes(_flipped(content, draw.randrange(8 * len(content))))
        assert kept("layer 1", lambda: {"x": np.arange(50.0)})["x"].tolist() == list(range(50))
    assert kept("layer 1", lambda: pytest.fail("it is there"))["x"].tolist() == list(range(50))


def test_an_unfinished_run_with_a_damaged_record_is_listed_as_unreadable(
    tmp_path: Path, record: RunRecord
) -> None:
    folder = RunFolder.create(tmp_path, record)
    path = folder.path / "run.json"
    path.write_text(path.read_text().replace('"toy"', '"tox"', 1))
    (summary,) = list_runs(tmp_path)
    assert summary.state is RunState.UNREADABLE
    assert 'remove its line "checksum"' in summary.problem


def test_runs_of_before_there_were_checksums_are_read(tmp_path: Path, record: RunRecord) -> None:
    """Written here as they were: no checksums in JSON, none in names, no digests in results.json."""
    old = tmp_path / record.id
    (old / "chunks").mkdir(parents=True)
    (old / "run.json").write_text(json.dumps(record.to_dict()))
    pq.write_table(pa.Table.from_pylist(ROWS), old / "chunks" / "000000-0a1b2c3d.parquet", compression="zstd")
    assert Run.open(old).examples()["id"].tolist() == [row["id"] for row in ROWS]
    assert RunFolder.resume(old, RECIPE).finished_ids() == {row["id"] for row in ROWS}
    (old / "chunks" / "000000-0a1b2c3d.parquet").rename(old / "examples.parquet")
    shutil.rmtree(old / "chunks")
    content = {"schema_version": 1, "results": {"toy": {"accuracy": ESTIMATE.to_dict()}}, "throughput": {}}
    (old / "results.json").write_text(json.dumps(content))
    run = Run.open(old)
    assert run.results == {"toy": {"accuracy": ESTIMATE}}
    assert run.examples().to_dict("records")[3]["score"] == ROWS[3]["score"]


def test_pages_have_checksums_for_other_readers(tmp_path: Path, record: RunRecord) -> None:
    """A flip inside a page's data is noticed by a plain pyarrow that verifies pages."""
    folder = RunFolder.create(tmp_path, record)
    folder.append([{"id": str(k), "x": float(k)} for k in range(1000)])
    folder.finish({}, {})
    file = folder.path / "examples.parquet"
    column = pq.ParquetFile(file).metadata.row_group(0).column(1)
    middle = (column.dictionary_page_offset or column.data_page_offset) + column.total_compressed_size // 2
    file.write_bytes(_flipped(file.read_bytes(), 8 * middle))
    with pytest.raises(OSError, match="CRC"):
        pq.read_table(file, page_checksum_verification=True)
