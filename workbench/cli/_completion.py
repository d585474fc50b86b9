"""``workbench --install-completion``: completion of verbs and options in bash, zsh and fish, by click's own scripts."""

from __future__ import annotations

import os
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from workbench.errors import WorkbenchError
from workbench.terminal import say

__all__ = ["install_completion"]

# where each shell looks for a command's completion, below the home folder
_PLACES = {
    "bash": ".local/share/bash-completion/completions/workbench",
    "zsh": ".zfunc/_workbench",
    "fish": ".config/fish/completions/workbench.fish",
}
_FURTHER = {
    "bash": "bash-completion reads it in a new shell; without that package add to ~/.bashrc: source {}",
    "zsh": "add to ~/.zshrc, if it is not there: fpath+=~/.zfunc; autoload -Uz compinit; compinit",
    "fish": "a new shell reads it",
}


def install_completion(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    """Write the script for the shell in ``SHELL`` and stop.

    Raises :class:`~workbench.errors.WorkbenchError` for a shell that click cannot complete in.
    """
    if not wanted or context.resilient_parsing:
        return
    shell = Path(os.environ.get("SHELL", "")).name
    if shell not in _PLACES:
        raise WorkbenchError(
            f"SHELL is {shell or 'not set'!r}, which click cannot complete in; allowed: {', '.join(_PLACES)}"
        )
    made = get_completion_class(shell)
    assert made is not None
    script = made(context.command, {}, "workbench", "_WORKBENCH_COMPLETE").source()
    path = Path.home() / _PLACES[shell]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script, encoding="utf-8")
    say(f"completion for {shell} written to {path}; {_FURTHER[shell].format(path)}")
    context.exit()
