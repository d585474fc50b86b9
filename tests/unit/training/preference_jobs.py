"""Pairs, tiny models and prepared trainers for the tests of training on preferences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from tests.unit.tiny import WORDS
from workbench.runs import RunRecord
from workbench.runs.trackers import LiveReport
from workbench.training.preferences import AlignSettings
from workbench.training.preferences.aligning import preparer_of, subject_of
from workbench.training.preferences.job import AlignJob, PreparedTrainer, Subject
from workbench.training.preferences.pairs import load_pairs

FIRST = {"precision": "float32", "lr": 0.01, "batch_size": 8}


def pair_table(folder: Path, count: int = 40) -> Path:
    """Pairs of which the chosen reply always ends in the first word and the rejected one in the second."""
    rows = [
        {
            "id": f"pair-{i}",
            "prompt": " ".join(WORDS[(i * 7 + k) % len(WORDS)] for k in range(2 + i % 3)),
            "chosen": " " + " ".join([WORDS[i % len(WORDS)]] * (i % 2) + [WORDS[0]]),
            "rejected": " " + " ".join([WORDS[i % len(WORDS)]] * (i % 3) + [WORDS[1]]),
        }
        for i in range(count)
    ]
    path = folder / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def prepared(model: Path, table: Path, out: Path, **options: Any) -> tuple[PreparedTrainer, Subject]:
    """A method's trainer for the first seed, before it begins."""
    settings = AlignSettings(**{**FIRST, **options})
    record = RunRecord.new("align", recipe={}, model={}, data={}, seeds={})
    report = LiveReport((), record, out)
    job = AlignJob(str(model), load_pairs(table), settings, 0, out, torch.device("cpu"), False, report)
    torch.manual_seed(0)
    subject = subject_of(job, settings.batch_size)
    return preparer_of(settings.method)(job, subject), subject
