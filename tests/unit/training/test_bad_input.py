"""What users get wrong in training: one line that says what, and exit code 2; and failures of the machine."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workbench.cli import main
from workbench.cli.sweep import draw_laws
from workbench.errors import RunError
from workbench.training import pretrain
from workbench.training.loop import WorkbenchTrainer
from workbench.training.settings import TrainSettings
from workbench.training.sweep import SweepRow, read_rows, store_rows, sweep_table

TINY = """
model_type: workbench-decoder
hidden_size: 8
attention: {heads: 2}
positions: {kind: rotary, max_length: 32}
feed_forward: {size: 16}
depth: {layers: 1}
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a corpus and a configuration; the cache lies there too."""
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "cache"))
    (tmp_path / "corpus.txt").write_text("The cat sat on the mat. A dog came home. " * 40)
    (tmp_path / "tiny.yaml").write_text(TINY)
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "binary.txt").write_bytes(bytes(range(256)) * 20)
    return tmp_path


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that a command prints when it refuses."""
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("workbench: ")
    assert error.count("\n") == 1
    return error


def train(place: Path, **changes: str) -> list[str]:
    given = {
        "--config": str(place / "tiny.yaml"),
        "--corpus": str(place / "corpus.txt"),
        "--tokenizer": "bytes",
        "--length": "16",
        "--batch-size": "2",
        "--steps": "2",
        "--report-to": "none",
        "--device": "cpu",
        "--out": str(place / "out"),
        **{f"--{name.replace('_', '-')}": value for name, value in changes.items()},
    }
    return ["train", *(word for pair in given.items() for word in pair)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"corpus": "empty.txt"}, "empty"),
        ({"corpus": "binary.txt"}, "binary.txt"),
        ({"corpus": "nothing.txt"}, "no corpus at"),
        ({"objective": "clmm"}, "did you mean 'clm'"),
        ({"objective": "mlm"}, "this objective trains workbench-encoder models"),
        ({"config": "nothing.yaml"}, "nothing.yaml: No such file or directory"),
        ({"tokenizer": "nothing"}, "no tokenizer 'nothing'"),
        ({"steps": "0"}, "0 is out of range; allowed: 1 or more"),
        ({"length": "64"}, "length is 64; allowed: 8 to 32"),
        ({"schedule": "cosin"}, "did you mean 'cosine'"),
        ({"precision": "float8"}, "unknown precision 'float8'"),
        ({"keep_steps": "1,two"}, "keep-steps has 'two'"),
        ({"set": "norm.plaecment=pre"}, "did you mean 'norm.placement'"),
        ({"report_to": "telegraph"}, "cannot report to 'telegraph'"),
        ({"device": "abacus"}, "abacus"),
    ],
)
def test_mistakes_in_training_are_told_in_a_line(
    changes: dict[str, str], message: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {"corpus", "config"}
    given = {k: str(place / v) if k in files else v for k, v in changes.items()}
    assert message in refused(capsys, *train(place, **given))
    assert not (place / "out" / "results.json").exists()


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([{"text": "a"}] * 9, [], "no 'label'"),
        ([{"text": "a", "label": 0}] * 9, [], "every label is '0'"),
        ([{"text": "a", "label": "x"}] * 9, ["--kind", "number"], "'x', not a finite number"),
        (
            [{"text": "a", "label": 0}, {"text": "b", "label": 1}] * 5,
            ["--kind", "klass"],
            "unknown kind 'klass'",
        ),
        (
            [{"text": "a", "label": 0}, {"text": "b", "label": 1}] * 5,
            ["--text-column", "sentence"],
            "no 'sentence'",
        ),
        (
            [{"text": "a", "label": 0}, {"text": "b", "label": 1}] * 5,
            ["--seeds", "one"],
            "'one' is not a whole number",
        ),
        (
            [{"text": "a", "label": 0}, {"text": "b", "label": 1}] * 5,
            ["--method", "lorra"],
            "did you mean 'lora'",
        ),
    ],
)
def test_mistakes_in_fine_tuning_are_told_in_a_line(
    rows: list[Any], options: list[str], message: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = place / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = ["finetune", "nothing/there", "--task", str(path), "--out", str(place / "out"), *options]
    assert message in refused(capsys, *arguments)


def test_a_sweep_of_nothing_is_told(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["sweep", *train(place)[1:]]
    assert "cannot read 'positions'" in refused(capsys, *arguments, "--vary", "positions")
    told = refused(capsys, *arguments, "--vary", "positions=rope,alibi", "--task", "lambda")
    assert "lambda" in told


def test_a_full_disk_names_the_last_good_checkpoint(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = WorkbenchTrainer._save_checkpoint

    def full(self: WorkbenchTrainer, *rest: Any) -> None:
        if self.state.global_step == 4:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(self, *rest)

    monkeypatch.setattr(WorkbenchTrainer, "_save_checkpoint", full)
    settings = TrainSettings.from_dict(
        {
            "model": {"config": str(place / "tiny.yaml")},
            "data": {"corpus": str(place / "corpus.txt"), "tokenizer": "bytes", "length": 16},
            "optimisation": {"steps": 6, "batch_size": 2},
            "loop": {"save_every": 2, "report_to": [], "precision": "float32"},
        }
    )
    with pytest.raises(
        RunError, match=r"disk is full or failing; the last good checkpoint is .*checkpoint-2;"
    ):
        pretrain.train(settings, place / "out", device="cpu")


def test_a_law_is_told_and_drawn_and_rows_are_read_again(tmp_path: Path) -> None:
    """Losses on (4e5 / N)^0.3; the same number of tokens for all, so no law of tokens."""
    sizes = [1e4, 1e5, 1e6]
    rows = [
        SweepRow(f"width={n:g}", int(n), 1e6, final_loss=float((4e5 / n) ** 0.3), scores={"t accuracy": 0.5})
        for n in sizes
    ]
    (line,) = draw_laws(rows, tmp_path)
    assert line.startswith(
        "L(N) = (4e+05 / N)^0.300, interval undefined (the values have no spread), parameters"
    )
    assert "log10 loss" in (tmp_path / "power-law-parameters.html").read_text()
    store_rows(rows, tmp_path)
    assert read_rows(tmp_path) == rows
    assert np.allclose(sweep_table(rows)["t accuracy"], 0.5)
    with pytest.raises(RunError, match="no sweep in"):
        read_rows(tmp_path / "nothing")


# As if the extra were not installed: importing either fails.
BASE_INSTALL = """
import contextlib, sys
sys.modules.update(accelerate=None, peft=None)
from workbench.cli import main
import workbench.analysis.faithfulness_run
"""
NEEDS_TRAINING = [
    ["finetune", "sentiment-encoder", "--task", "glue/rte"],
    ["evaluate", "sentiment-encoder", "--task", "glue/rte", "--finetune"],
    ["train", "--preset", "gpt2-tiny", "--corpus", "text.txt", "--out", "nowhere"],
]


def test_training_without_its_extra_says_what_to_install_and_the_rest_works(tmp_path: Path) -> None:
    """Explaining rows of a file, the last import above, needs no training."""
    (tmp_path / "text.txt").write_text("a b c\n")
    calls = "".join(
        f"with contextlib.suppress(SystemExit): main({arguments})\n" for arguments in NEEDS_TRAINING[:-1]
    )
    program = f"{BASE_INSTALL}{calls}main({NEEDS_TRAINING[-1]})"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert run.returncode == 2, run.stderr
    message = "workbench: training needs the package accelerate: pip install 'transformer-workbench[train]'"
    assert run.stderr.strip().splitlines()[-3:] == [message] * 3
