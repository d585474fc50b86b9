"""``workbench train``: pre-train a model of any preset or configuration."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from workbench.cli._shared import COUNT, NUMBER, PATH, SEED
from workbench.errors import ConfigError, RunError
from workbench.paths import check_folder
from workbench.terminal import say, shows_progress

if TYPE_CHECKING:
    from workbench.runs import Run
    from workbench.training.settings import TrainSettings

__all__ = ["command", "recipe_options", "settings_from"]

Command = TypeVar("Command", bound=Callable[..., Any])


# what is trained, and on what
_SOURCES = (
    click.option("--recipe", type=PATH, help="YAML recipe; options given change it."),
    click.option("--preset", help="Configuration by name; see: workbench models --presets."),
    click.option("--config", help="Configuration as a YAML file."),
    click.option("--model", help="Go on training this model."),
    click.option("--set", "changes", multiple=True, help="Change a field: norm.placement=pre. Repeatable."),
    click.option("--objective", help="clm, mlm, translation, …  [default: clm]"),
    click.option("--teacher", help="Distil this model: match its probabilities and states."),
    click.option("--rate", type=NUMBER, help="Share of tokens that the objective hides."),
    click.option("--window", type=COUNT, help="Skip-gram: farthest neighbour of a word.  [default: 5]"),
    click.option("--negatives", type=COUNT, help="Skip-gram: drawn words a neighbour.  [default: 5]"),
    click.option(
        "--subsample",
        type=NUMBER,
        help="Skip-gram: share of the corpus above which occurrences of a word are left out.  [default: 0.001]",
    ),
    click.option(
        "--corpus",
        help="File (.txt .xz .gz .zst .jsonl .parquet), folder, or hub:NAME[@REVISION].",
    ),
    click.option("--validation", help="Corpus to validate on (default: the last hundredth)."),
    click.option("--text-column", help="Column of JSONL and Parquet files.  [default: text]"),
    click.option(
        "--target-column",
        help="Of a corpus of pairs: column beside --text-column, or end of a name: CORPUS.fr beside CORPUS.en.",
    ),
    click.option("--tokenizer", help="byte-bpe, bpe, wordpiece, unigram, bytes, a folder, or a model."),
    click.option("--vocab-size", type=COUNT, help="Of a tokenizer to train.  [default: 8192]"),
    click.option("--length", type=COUNT, help="Tokens of a row.  [default: 256]"),
    click.option("--isolate-documents", is_flag=True, default=None, help="Attention stays in a document."),
)
# how, and how long
_LOOP = (
    click.option("--steps", type=COUNT, help="Optimizer steps.  [default: 1000]"),
    click.option("--batch-size", type=COUNT, help="Rows of one step, over all processes.  [default: 16]"),
    click.option("--batch-tokens", type=COUNT, help="The same in tokens."),
    click.option("--micro-batch", type=COUNT, help="Rows of one forward pass (default: what fits)."),
    click.option("--lr", type=NUMBER, help="Highest learning rate.  [default: 0.001]"),
    click.option("--schedule", help="cosine, wsd, inverse_sqrt, linear, constant.  [default: cosine]"),
    click.option("--warmup", type=NUMBER, help="Share of the steps.  [default: 0.05]"),
    click.option("--seed", type=SEED, help="Of weights, order and masks.  [default: 0]"),
    click.option("--precision", help="auto, float32 or bfloat16.  [default: auto]"),
    click.option("--compile", is_flag=True, default=None, help="Compile the model with torch.compile."),
    click.option("--log-every", type=COUNT, help="Steps.  [default: 10]"),
    click.option("--eval-every", type=COUNT, help="Steps between validations."),
    click.option("--save-every", type=COUNT, help="Steps between checkpoints to resume from."),
    click.option("--minutes", type=NUMBER, help="Stop by the clock; the schedule ends with it."),
    click.option("--keep-steps", help="Models to keep: 0,1,2,4,… (… goes on doubling)."),
    click.option(
        "--report-to", help="tensorboard, wandb, mlflow or none, by commas.  [default: tensorboard]"
    ),
)


def recipe_options(function: Command) -> Command:
    """The options that make a recipe; ``train`` and ``sweep`` share them."""
    for option in reversed((*_SOURCES, *_LOOP)):
        function = option(function)
    return function


@click.command("train")
@recipe_options
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, mps.")
@click.option("--out", type=PATH, required=True, help="Folder of model and run.")
@click.option("--resume", is_flag=True, help="Go on with the run in --out, from its last whole checkpoint.")
@click.option("--checkpoint", type=PATH, help="With --resume: go on from this one.")
def command(device: str, out: Path, resume: bool, checkpoint: Path | None, **options: Any) -> None:
    """Pre-train a model and store it, with its tokenizer and loss curve, in one folder.

    \b
    workbench train --preset llama-tiny --corpus input.txt --steps 200 --out runs/shakespeare
    workbench train --out runs/shakespeare --resume
    torchrun --nproc-per-node 2 -m workbench train …
    """
    check_folder(out)
    settings = settings_from(options, stored=_stored(out, options) if resume else None)
    from workbench.training.pretrain import train

    run = train(settings, out, resume=checkpoint or resume, device=device, progress=shows_progress())
    if _is_main_process():
        _print(run)


def _stored(out: Path, options: dict[str, Any]) -> Path | dict[str, Any] | None:
    """The recipe of the run in ``out``; none if nothing is there and the options make a recipe of their own."""
    from workbench.runs import Run

    recipe = out / "recipe.yaml"
    if recipe.is_file():
        return recipe
    if (out / "run.json").is_file():  # stopped between the two files
        return Run.open(out.resolve()).record.recipe
    if not options.get("corpus") and not options.get("recipe"):
        raise RunError(f"nothing to resume in {out}: it holds no run; start without --resume")
    return None


# option -> (part, field)
_FIELDS = {
    **{name: ("model", name) for name in ("preset", "config", "model")},
    "changes": ("model", "set"),
    **{
        name: ("data", name)
        for name in (
            "corpus",
            "validation",
            "text_column",
            "target_column",
            "tokenizer",
            "vocab_size",
            "length",
            "isolate_documents",
        )
    },
    "objective": ("objective", "name"),
    "rate": ("objective", "rate"),
    **{name: ("objective", name) for name in ("teacher", "window", "negatives", "subsample")},
    **{name: ("optimisation", name) for name in ("steps", "batch_size", "lr", "schedule", "warmup", "seed")},
    **{
        name: ("loop", name)
        for name in (
            "micro_batch",
            "precision",
            "compile",
            "log_every",
            "eval_every",
            "save_every",
            "minutes",
        )
    },
}


def settings_from(options: dict[str, Any], stored: Path | dict[str, Any] | None = None) -> TrainSettings:
    """The recipe that the options make, on top of a stored one or of ``--recipe``."""
    from workbench.training.settings import TrainSettings, parse_steps

    file = stored or options.get("recipe")
    values = _read(file) if file is not None else {"model": {}, "data": {}}
    for name, (part, field) in _FIELDS.items():
        given = options.get(name)
        if given is not None and given != ():
            values.setdefault(part, {})[field] = list(given) if isinstance(given, tuple) else given
            if part == "model" and field != "set":
                others = {"preset", "config", "model"} - {field}
                values["model"] = {k: v for k, v in values["model"].items() if k not in others}
    loop, optimisation = values.setdefault("loop", {}), values.setdefault("optimisation", {})
    if options.get("batch_tokens"):
        length = values["data"].get("length") or 256
        optimisation["batch_size"] = max(1, options["batch_tokens"] // length)
    if options.get("report_to"):
        loop["report_to"] = [name for name in options["report_to"].split(",") if name != "none"]
    if options.get("keep_steps"):
        loop["keep_steps"] = list(parse_steps(options["keep_steps"], optimisation.get("steps", 1000)))
    if not values["data"].get("corpus"):
        raise ConfigError("no corpus; name a text file or a folder of them with --corpus")
    return TrainSettings.from_dict(values)


def _read(file: Path | dict[str, Any]) -> dict[str, Any]:
    from workbench.training.settings import TrainSettings
    from workbench.yaml_reader import read_values

    if isinstance(file, dict):
        return TrainSettings.from_dict(file).to_dict()
    return TrainSettings.from_dict(read_values(file), str(file)).to_dict()


def _is_main_process() -> bool:
    from workbench.training.libraries import PartialState

    return bool(PartialState().is_main_process)


def _print(run: Run) -> None:
    from workbench.cli._tables import results_table

    speed, model = run.throughput, run.record.model
    beside = "".join(
        f"; {name}: {model[name]['class']}, {model[name]['parameters']:,} parameters"
        for name in ("teacher", "generator", "span_boundary")
        if name in model
    )
    say(f"{model['class']}, {model['parameters']:,} parameters{beside}\n")
    say(results_table(run.results))
    rate = f"{speed['tokens_per_second']:,.0f} tokens/s, {speed['utilisation']:.1%} of the peak"
    say(f"\n{speed['tokens']:,.0f} tokens in {speed['seconds']:,.0f} s: {rate}; stored in {run.path}")
    say(f"next: workbench {_follow(run).format(shlex.quote(str(run.path)))}")


def _follow(run: Run) -> str:
    name = run.record.model["class"]
    if run.record.recipe["objective"]["name"] == "translation":
        return 'attend {} "…" --view alignment --out alignment.html'
    is_causal = "CausalLM" in name or "LMHead" in name
    return "evaluate {} --task lambada_sample" if is_causal else "probe {} --task pos"
