"""The ``workbench`` command: one file per verb, imported only when that verb runs."""

from __future__ import annotations

import logging
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

from workbench import __version__
from workbench.characters import lone_surrogate, neutral
from workbench.cli._completion import install_completion
from workbench.cli._elsewhere import elsewhere
from workbench.errors import WorkbenchError, WorkbenchWarning, did_you_mean
from workbench.folders import another_place
from workbench.terminal import LOGGER, say

__all__ = ["main"]

# verb -> (module that defines ``command``, one line of help)
COMMANDS: dict[str, tuple[str, str]] = {
    "attend": ("workbench.cli.attend", "Show a text's attention, or measure all heads over a corpus."),
    "align": ("workbench.cli.align", "Train a model on preferences or rewards."),
    "card": ("workbench.cli.card", "Write a model card in the hub's format from the stored runs."),
    "attribute": (
        "workbench.cli.attribute",
        "Say which tokens a prediction rests on, and how far to believe it.",
    ),
    "changes": (
        "workbench.cli.changes",
        "Show what training changed inside a model: before and after, by layer.",
    ),
    "context": ("workbench.cli.context", "Measure how far back a model looks, as curves with intervals."),
    "dashboard": ("workbench.cli.dashboard", "Open the dashboard in the browser, on localhost only."),
    "check": ("workbench.cli.check", "Check a model on challenge sets and behavioural tests."),
    "compare": (
        "workbench.cli.compare",
        "Compare stored runs in pairs (tests, leaderboard, slices), or models by preference.",
    ),
    "doctor": (
        "workbench.cli.doctor",
        "Check a model's numerics: padding, batching, BOS, attention, gradients.",
    ),
    "demo": ("workbench.cli.demo", "Examine a real model on real text and write a report."),
    "evaluate": ("workbench.cli.evaluate", "Evaluate a model on a task; every number with its interval."),
    "finetune": (
        "workbench.cli.finetune",
        "Give a model a head, or a few new weights, and train it on a task.",
    ),
    "generate": (
        "workbench.cli.generate",
        "Generate after a text; each token's probability, entropy and alternatives.",
    ),
    "judge": ("workbench.cli.judge", "Ask a model which of two replies is better, in both orders."),
    "lens": ("workbench.cli.lens", "Show what each layer of a model would predict."),
    "grid": ("workbench.cli.grid", "Run many models on many tasks, here or on a Ray cluster."),
    "models": ("workbench.cli.models", "List the known models and presets, or show one."),
    "patch": (
        "workbench.cli.patch",
        "Exchange activations of two texts, and see what brings the answer back.",
    ),
    "probe": ("workbench.cli.probe", "Ask what each layer knows, with controls."),
    "report": ("workbench.cli.report", "Write stored runs as one HTML page, or as a table for a paper."),
    "runs": ("workbench.cli.runs", "List the stored runs."),
    "sets": ("workbench.cli.sets", "List the challenge sets and suites, and the files that each wants."),
    "surprisal": ("workbench.cli.surprisal", "Show how many bits each word of a text carries."),
    "sweep": ("workbench.cli.sweep", "Train variants on the same data and budget; compare them in a table."),
    "tasks": ("workbench.cli.tasks", "List the tasks."),
    "train": ("workbench.cli.train", "Pre-train a model of any preset or configuration."),
    "tokenize": ("workbench.cli.tokenize", "Show a text's pieces, with their ids, characters and words."),
}


class _LazyGroup(click.Group):
    """Knows every verb's name and help line; imports a verb's module only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All verbs, by name."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """The verb's command; its module is imported here."""
        if name not in COMMANDS:
            return None
        command = import_module(COMMANDS[name][0]).command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's, but an unknown verb is answered with the nearest known one."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            raise WorkbenchError(f"unknown verb {args[0]!r}; {did_you_mean(args[0], list(COMMANDS))}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table of verbs in ``--help``."""
        with formatter.section("Verbs"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in sorted(COMMANDS)])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="workbench")
@click.option("--quiet", is_flag=True, help="No bars, no notes: results and errors alone.")
@click.option(
    "--verbose", is_flag=True, help="Also the log of other packages, and where a refused input was found."
)
@click.option(
    "--install-completion",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=install_completion,
    help="Complete verbs and options in this shell (bash, zsh, fish).",
)
def cli(quiet: bool, verbose: bool) -> None:
    """Evaluate transformer language models and look inside them."""
    if quiet and verbose:
        raise WorkbenchError("--quiet and --verbose do not go together; leave one out")
    if quiet:
        os.environ["TQDM_DISABLE"] = "1"  # bars of other packages; read when tqdm is imported
        LOGGER.setLevel(logging.ERROR)
        warnings.simplefilter("ignore", WorkbenchWarning)
    if verbose:
        LOGGER.setLevel(logging.DEBUG)
        os.environ.setdefault("TRANSFORMERS_VERBOSITY", "info")  # read when it is imported
        logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")


def _note() -> Callable[..., None]:
    """Shows our own warnings in one line, each once; those of other packages as Python does."""
    said: set[str] = set()

    def show(message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any) -> None:
        if not issubclass(category, WorkbenchWarning):
            say(warnings.formatwarning(message, category, filename, lineno), error=True, end="")
        elif str(message) not in said:
            said.add(str(message))
            say(f"note: {' '.join(str(message).split())}", error=True)

    return show


@contextmanager
def _harmless_output() -> Iterator[None]:
    """Warnings and log lines of other packages, which may quote foreign files, cannot steer the terminal either."""
    factory = logging.getLogRecordFactory()

    def record(*arguments: Any, **named: Any) -> logging.LogRecord:
        made = factory(*arguments, **named)
        made.msg, made.args = neutral(made.getMessage(), keep="\n"), ()
        return made

    logging.setLogRecordFactory(record)
    logging.getLogger("matplotlib").setLevel(
        logging.ERROR
    )  # where its own cache lies when the home is read-only
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default", WorkbenchWarning)
            warnings.showwarning = _note()
            yield
    finally:
        logging.setLogRecordFactory(factory)


def _refuse(message: object, hint: str = "") -> int:
    say(f"workbench: {' '.join(str(message).split())}{hint}", error=True)
    return 2


def _check_words(words: Sequence[str]) -> None:
    """Raise :class:`~workbench.errors.WorkbenchError` for an argument that is no text."""
    for number, word in enumerate(words, 1):
        if "\0" in word:
            raise WorkbenchError(f"argument {number} has a NUL character at {word.index(chr(0))}; remove it")
        lone = lone_surrogate(word)
        if lone is not None:
            raise WorkbenchError(f"argument {number} has the lone surrogate {lone}; write it in UTF-8")


def main(arguments: list[str] | None = None) -> None:
    """Run the command line. A user's mistake prints one line and exits with 2; Ctrl-C exits with 130."""
    words = sys.argv[1:] if arguments is None else arguments
    LOGGER.setLevel(logging.NOTSET)  # a run before, in this process, may have been quiet
    code: Any = 0
    try:
        with _harmless_output():
            _check_words(words)
            code = cli.main(list(words), prog_name="workbench", standalone_mode=False)
    except WorkbenchError as error:
        if LOGGER.level == logging.DEBUG:
            say("".join(traceback.format_exception(error)), error=True, end="")
        code = _refuse(error, elsewhere(error))
    except click.ClickException as error:
        code = _refuse(error.format_message(), " (see --help)")
    except OSError as error:
        if error.errno is None:
            raise
        where = error.filename or "while reading or writing"
        code = _refuse(f"{error.strerror}: {where}; {another_place(error.filename)}")
    except (click.Abort, KeyboardInterrupt):
        say("workbench: interrupted", error=True)
        code = 130
    sys.exit(code if isinstance(code, int) else 0)
