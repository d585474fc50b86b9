"""What the verbs share: types of arguments, a model's options, loading, writing figures, resuming, JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from workbench.choices import DEFAULT_DTYPE
from workbench.errors import RunError, UnknownName, WorkbenchError
from workbench.paths import check_folder, check_output, user_path
from workbench.records import LARGEST_SEED
from workbench.terminal import counted

if TYPE_CHECKING:
    from workbench.drawn import Drawing
    from workbench.models import LoadedModel, TextFunction
    from workbench.runs import Run

__all__ = [
    "BUDGET",
    "COUNT",
    "FIGURES",
    "INDEX",
    "MODEL_OPTIONS",
    "NUMBER",
    "PATH",
    "PLACE",
    "PROMPT",
    "SEED",
    "SEEDS",
    "Named",
    "Whole",
    "check_figure",
    "check_runs",
    "complete",
    "load_named",
    "load_subject",
    "model_line",
    "model_options",
    "model_record",
    "prompt_of",
    "prompt_options",
    "refuse_prompt",
    "report_option",
    "run_summary",
    "saved",
    "set_options",
    "set_remarks",
    "stored_run",
    "verdict",
]


class _Path(click.ParamType):  # type: ignore[type-arg]  # not generic before click 8.2
    """A path that a file system can hold."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The path; fails in one line for one that no file can have."""
        try:
            return user_path(value)
        except WorkbenchError as error:
            self.fail(str(error), param, ctx)


class Whole(click.ParamType):  # type: ignore[type-arg]  # not generic before click 8.2
    """A whole number from ``low`` to ``high``."""

    name = "integer"

    def __init__(self, low: int, high: int = 2**63 - 1) -> None:
        self.low, self.high = low, high

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number; fails in one line for anything else."""
        try:
            number = int(value)
        except ValueError:
            self.fail(f"{value!r:.40} is not a whole number", param, ctx)
        if not self.low <= number <= self.high:
            allowed = f"{self.low} or more" if self.high == 2**63 - 1 else f"{self.low} to {self.high}"
            self.fail(f"{value!s:.40} is out of range; allowed: {allowed}", param, ctx)
        return number


class _Number(click.ParamType):  # type: ignore[type-arg]  # not generic before click 8.2
    """A finite number."""

    name = "float"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number; fails in one line for anything else, NaN and infinity included."""
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            self.fail(f"{value!r:.40} is not a finite number", param, ctx)
        return number


class Named(click.ParamType):  # type: ignore[type-arg]
    """One of ``names``, which are asked for (and their module imported) only where a value is given."""

    name = "text"

    def __init__(self, noun: str, names: Callable[[], Iterable[str]]) -> None:
        self.noun, self.names = noun, names

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name; raises :class:`~workbench.errors.UnknownName` with the nearest for any other."""
        if param is not None and value == param.default:
            return str(value)
        names = list(map(str, self.names()))
        if value not in names:
            raise UnknownName(self.noun, str(value), names)
        return str(value)


class _Seeds(click.ParamType):  # type: ignore[type-arg]
    """Seeds separated by commas."""

    name = "text"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """The seeds, each once; fails in one line for anything else."""
        words = [word.strip() for word in str(value).split(",") if word.strip()]
        if not words:
            self.fail(f"no seed in {value!r:.40}; write 0,1,2", param, ctx)
        seeds = tuple(SEED.convert(word, param, ctx) for word in words)
        return tuple(dict.fromkeys(seeds))


class _Budget(click.ParamType):  # type: ignore[type-arg]
    """``auto``, or a number of tokens."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str | int:
        """``auto`` or the number; fails in one line for anything else."""
        return "auto" if value == "auto" else COUNT.convert(value, param, ctx)


BUDGET = _Budget()


PATH = _Path()


SEEDS = _Seeds()


NUMBER = _Number()


SEED = Whole(0, LARGEST_SEED)


COUNT = Whole(1)


INDEX = Whole(0, 2**31 - 1)


"""A layer, head or place, counted from 0."""


PLACE = Whole(-(2**31), 2**31 - 1)


"""The same, or counted from the end: -1 is the last."""


Command = TypeVar("Command", bound=Callable[..., Any])


def model_options(function: Command) -> Command:
    """``--revision --dtype --device --implementation``: how a model is loaded."""
    for option in (
        click.option("--implementation", default="hf", show_default=True, help="hf or builtin."),
        click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:N or mps."),
        click.option(
            "--dtype",
            default=DEFAULT_DTYPE,
            show_default=True,
            help="float32, bfloat16, float16, or auto: bfloat16 where it is fast.",
        ),
        click.option("--revision", default=None, help="Branch, tag or commit of a hub model."),
    ):
        function = option(function)
    return function


PROMPT = ("chat", "system", "special_tokens")


def prompt_options(function: Command) -> Command:
    """``--chat --system --special-tokens``: how a model reads a text."""
    for option in (
        click.option(
            "--special-tokens",
            type=Named("special tokens", lambda: ("parse", "text")),
            default="parse",
            show_default=True,
            help="One spelled out in a text, such as <|endoftext|>: that token (parse), or its characters (text).",
        ),
        click.option("--system", help="Of --chat: a system message in front."),
        click.option(
            "--chat",
            is_flag=True,
            help="The text is a user message in the model's chat template, the generation prompt behind it.",
        ),
    ):
        function = option(function)
    return function


def refuse_prompt(options: Mapping[str, Any], beside: str) -> None:
    """Raise :class:`WorkbenchError` for options of :func:`prompt_options`, which do not go with ``beside``."""
    if prompt_of(options) != {"chat": False, "system": None, "special_tokens": "parse"}:
        raise WorkbenchError(
            f"--chat, --system and --special-tokens do not go with {beside}; leave out one of both"
        )


def prompt_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the options of :func:`prompt_options` that a verb has."""
    return {name: options[name] for name in PROMPT if name in options}


def set_options(function: Command) -> Command:
    """``--limit-per-paradigm --convention --reduction --masking``: options of challenge sets."""
    for option in (
        click.option("--masking", default="original", show_default=True, help="original or within_word_l2r."),
        click.option("--reduction", default="sum", show_default=True, help="Compare sum, mean or word."),
        click.option(
            "--convention", default="workbench", show_default=True, help="workbench, lm-eval or minicons."
        ),
        click.option(
            "--limit-per-paradigm", type=COUNT, help="Only the first N items of each paradigm or test."
        ),
    ):
        function = option(function)
    return function


class _Trackers(click.ParamType):  # type: ignore[type-arg]
    """Experiment trackers separated by commas, found to be installed before the work begins."""

    name = "text"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """The names; raises :class:`~workbench.errors.ConfigError` for an unknown one, or without its package."""
        from workbench.runs.trackers import check_trackers

        words = [word.strip() for word in str(value).split(",")]
        return check_trackers([word for word in words if word not in ("", "none")])


report_option = click.option(
    "--report-to",
    type=_Trackers(),
    default=None,
    help="Also report the run to tensorboard, wandb or mlflow, by commas.",
)


FIGURES = (".csv", ".html", ".pdf", ".png", ".svg")


"""Endings of files that a figure can be written to."""


def check_figure(out: Path | None, *further: str) -> None:
    """Raise :class:`WorkbenchError` where no figure can be written: before a model is loaded, not after."""
    if out is not None:
        check_output(out, (*FIGURES, *further))


def check_runs(out: Path | None) -> None:
    """Raise :class:`WorkbenchError` where no run can be stored."""
    from workbench.runs import default_root

    check_folder(out or default_root())


def load_named(name: str, options: dict[str, Any]) -> LoadedModel:
    """The model of the options of :func:`model_options`, which reads as those of :func:`prompt_options` say.

    Options of the prompt that cannot go together are refused before the model is loaded.
    """
    from workbench.models import load
    from workbench.text import PromptFormat

    prompt = prompt_of(options)
    PromptFormat(**prompt)
    chosen = {key: options[key] for key in ("revision", "dtype", "device", "implementation")}
    return load(name, **chosen).reads(**prompt)


def load_subject(name: str, options: dict[str, Any]) -> LoadedModel | TextFunction:
    """As :func:`load_named`, or for ``module:function`` the function, to which options of a model do not apply."""
    from workbench.models.function_names import is_function_name, load_function

    if not is_function_name(name):
        return load_named(name, options)
    for option in ("revision", "dtype", "device", "implementation", "batch_tokens", *PROMPT):
        if click.get_current_context().get_parameter_source(option) is ParameterSource.COMMANDLINE:
            raise WorkbenchError(
                f"--{option.replace('_', '-')} is of a model; {name} is a function: leave it out"
            )
    return load_function(name)


def saved(view: Drawing, out: Path) -> Path:
    """The path that the figure was written to; raises :class:`WorkbenchError` where it cannot be."""
    try:
        return view.save(out)
    except OSError as error:
        raise WorkbenchError(f"cannot write {out}: {error.strerror or error}; name another --out") from error


def model_record(model: LoadedModel | TextFunction | Run, *further: str) -> dict[str, Any]:
    """``{"name", "dtype"}`` of a loaded model or of a run's, and ``further`` fields of a run's record.

    ``dtype`` is ``None`` for predictions, which no model has computed here.
    """
    stored = _stored(model)
    return {name: stored.get(name) for name in ("name", "dtype", *further)}


def model_line(model: LoadedModel | TextFunction | Run) -> str:
    """``gpt2 (124,439,808 parameters, float32)``; the kind of a model that has neither."""
    stored = _stored(model)
    size = stored.get("parameters")
    known = [None if size is None else f"{size:,} parameters", stored.get("dtype")]
    return f"{stored['name']} ({', '.join(filter(None, known)) or stored['kind']})"


def _stored(model: LoadedModel | TextFunction | Run) -> dict[str, Any]:
    from workbench.models import LoadedModel, TextFunction

    if isinstance(model, TextFunction):
        return model.identity()
    if not isinstance(model, LoadedModel):
        return model.record.model
    dtype = str(model.dtype).removeprefix("torch.")
    return {"name": model.name, "dtype": dtype, "parameters": model.num_parameters, "kind": str(model.kind)}


MODEL_OPTIONS = ("revision", "dtype", "implementation")


"""Options of a model that a run stores; the device may be another one when it is resumed."""


def stored_run(verb: str, resume: str | None, out: Path | None) -> Run | None:
    """The run to go on with, if any; raises :class:`~workbench.errors.RunError` if ``verb`` did not make it."""
    from workbench.runs import Run, find_run

    if not resume:
        return None
    run = Run.open(find_run(resume, out))
    if run.record.verb != verb:
        raise RunError(f"{run.path} was made by workbench {run.record.verb}, not by {verb}")
    return run


def complete(context: click.Context, values: dict[str, Any], stored: Mapping[str, Any]) -> None:
    """Fill ``values`` in from the ``stored`` options, but for those that were given.

    Raises :class:`~workbench.errors.RunError` for a model that is a function by name: a file cannot have code imported.
    """
    from workbench.models.function_names import is_function_name

    named = stored.get("model")
    if named and not values.get("model") and is_function_name(str(named)):
        raise RunError(
            f"the run is of the function {named}, which is imported only where you name it: "
            f"workbench {context.info_name} {named} --resume RUN"
        )
    for name, value in stored.items():
        if context.get_parameter_source(name) in (ParameterSource.DEFAULT, None) or values[name] is None:
            values[name] = value


def verdict(run: Run) -> str:
    """The self-check's verdict in one word."""
    return str((run.record.doctor or {}).get("verdict", "skipped"))


def set_remarks(notes: Mapping[str, Any]) -> list[str]:
    """What a reader of a challenge set's numbers should know, from the set's notes."""
    found = [
        notes[name] for name in ("limited", "left_out", "not_scored", "resumed_by_name") if notes.get(name)
    ]
    if notes.get("truncated"):
        found.append(f"{counted(notes['truncated'], 'case')} with texts that were truncated to fit the model")
    if notes.get("one_answer_throughout"):
        found.append(f"the model answers {notes['one_answer_throughout']!r} throughout")
    return found


def run_summary(run: Run) -> dict[str, Any]:
    """What ``--json`` prints of every run: folder, model, results with intervals, throughput, doctor."""
    return {
        "run": str(run.path),
        "model": model_record(run, "first_token"),
        "results": {
            task: {name: estimate.to_dict() for name, estimate in metrics.items()}
            for task, metrics in run.results.items()
        },
        "throughput": run.throughput,
        "doctor": verdict(run),
    }
