"""Options of the command itself: quiet, verbose, completion."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import get_completion_class

from tests.helpers import run_command
from workbench import terminal
from workbench.cli import cli


def test_completion_is_written_where_the_shell_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for shell, place in (("fish", ".config/fish/completions/workbench.fish"), ("zsh", ".zfunc/_workbench")):
        monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
        done = run_command("--install-completion")
        assert done.returncode == 0, done.stderr
        assert "_WORKBENCH_COMPLETE" in (tmp_path / place).read_text()
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    done = run_command("--install-completion")
    assert (done.returncode, "allowed: bash, zsh, fish" in done.stderr) == (2, True)


def test_verbs_and_options_are_completed() -> None:
    """What the script asks the command for, by click's own protocol."""
    variables = {"_WORKBENCH_COMPLETE": "bash_complete", "COMP_WORDS": "workbench eval", "COMP_CWORD": "1"}
    program = [sys.executable, "-c", "from workbench.cli import main; main()"]
    done = subprocess.run(
        program, env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["plain,evaluate"]
    found = get_completion_class("bash")
    assert found is not None
    options = found(cli, {}, "workbench", "_WORKBENCH_COMPLETE").get_completions(["evaluate"], "--tas")
    assert [item.value for item in options] == ["--task"]


def test_quiet_has_no_bars_and_no_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TQDM_DISABLE", "0")  # so that it is put back
    assert run_command("--quiet", "tasks").stderr == ""
    assert terminal.LOGGER.level == 40
    both = run_command("--quiet", "--verbose", "tasks")
    assert (both.returncode, len(both.stderr.splitlines())) == (2, 1)
    run_command("tasks")
    assert terminal.LOGGER.level == 0


def test_verbose_shows_where_a_refused_input_was_found() -> None:
    done = run_command("--verbose", "tasks", "nope")
    assert done.returncode == 2
    assert "Traceback" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("workbench: unknown task 'nope'")
    assert len(run_command("tasks", "nope").stderr.splitlines()) == 1
