"""Each command of :data:`tests.kills.WORK`, killed at seeded random moments and resumed."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from tests.kills import WORK, Work, kill_and_resume, unbroken


@pytest.mark.skipif(sys.platform == "win32", reason="a forkserver and SIGKILL are POSIX")
@pytest.mark.parametrize("work", WORK, ids=lambda work: work.name)
def test_a_killed_command_resumes_to_the_unbroken_result(work: Work, tmp_path: Path) -> None:
    """Results, notes, examples and arrays are compared with those of the same command left alone."""
    folders = [tmp_path / name for name in ("whole", "first", "second")]
    for folder in folders:
        folder.mkdir()
    whole, draw = unbroken(work, folders[0]), random.Random(7)
    for folder in folders[1:]:
        kill_and_resume(work, folder, whole, draw)
