"""``workbench attribute``: which tokens a prediction rests on, and how far to believe the answer."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workbench.characters import printable
from workbench.cli._shared import (
    COUNT,
    INDEX,
    PATH,
    SEED,
    Named,
    check_figure,
    check_runs,
    load_named,
    load_subject,
    model_line,
    model_options,
    model_record,
    prompt_options,
    run_summary,
    saved,
    stored_run,
)
from workbench.cli._tables import examination_text, measures_text, scores_text
from workbench.errors import WorkbenchError
from workbench.terminal import counted, say, say_json, shows_progress

if TYPE_CHECKING:
    from workbench.analysis.faithfulness_examine import Examination
    from workbench.analysis.saliency import Attribution, SaliencyOptions
    from workbench.figures import View
    from workbench.models import LoadedModel, TextFunction

__all__ = ["command"]


def _baselines() -> Sequence[str]:
    from workbench.analysis.saliency.baselines import NAMES

    return NAMES


def _outputs() -> Sequence[str]:
    from workbench.analysis.saliency import Output

    return list(Output)


def _attacks() -> Sequence[str]:
    from workbench.analysis.attacks import ATTACKS

    return list(ATTACKS)


@click.command(name="attribute")
@click.argument("model")
@click.argument("text", required=False)
@click.option("--pair", help="A second text, read after the first as the model's tokenizer joins pairs.")
@click.option(
    "--target",
    help="Continuation, word in the blank, class, or generated text. Default: the most likely token.",
)
@click.option("--contrast", help="Attribute the target rather than this one.")
@click.option("--position", type=INDEX, help="Which blank, generated token or labelled token, from 0.")
@click.option(
    "--method",
    "methods",
    multiple=True,
    help="One or more; default integrated_gradients (of a function occlusion), with --data a cheap selection. 'all' "
    "runs every one.",
)
@click.option(
    "--baseline",
    type=Named("baseline", _baselines),
    help="mask (default where there is one), pad, zero or mean.",
)
@click.option("--output", type=Named("output", _outputs), help="logit, log_probability or probability.")
@click.option("--words", is_flag=True, help="Merge sub-words to words.")
@click.option(
    "--normalise",
    type=Named("normalisation", lambda: ("none", "sum", "max")),
    default="none",
    show_default=True,
    help="none, sum or max.",
)
@click.option(
    "--steps", type=COUNT, help="Steps of integrated gradients. Default: as many as --tolerance needs."
)
@click.option("--samples", type=COUNT, help="Number of samples, for sampling methods.")
@click.option("--layer", type=INDEX, help="Layer of layer methods, from 0. Default: the middle one.")
@click.option(
    "--keep-first", is_flag=True, help="Leave the first token in place: a decoder's attention sink."
)
@click.option(
    "--unit",
    type=Named("unit", lambda: ("token", "word", "span", "sentence")),
    default="token",
    show_default=True,
    help="token, word, span or sentence: what goes at once.",
)
@click.option("--seed", type=SEED, default=0, show_default=True)
@click.option(
    "--each",
    is_flag=True,
    help="Each generated token's attribution to the prompt and, for decoders, to earlier generated tokens.",
)
@click.option(
    "--attack",
    type=Named("attack", _attacks),
    help="Instead of scores: the change that turns the class (hotflip, rewrites), or what keeps it (input_reduction).",
)
@click.option("--bars", is_flag=True, help="Bars instead of text in colours.")
@click.option("--yes", is_flag=True, help="Run even if the estimated cost is high.")
@click.option("--data", type=PATH, help="A table of texts: .tsv, .csv, .jsonl or .parquet.")
@click.option("--text-column", default=None, help="Of --data; default sentence or text.")
@click.option(
    "--label-column", default=None, help="Of --data: attribute this class instead of the predicted one."
)
@click.option(
    "--rationale-column", default=None, help="Of --data: a list with 1 for each word people marked."
)
@click.option("--limit", type=COUNT, help="Only the first N texts of --data.")
@click.option("--evaluate", is_flag=True, help="Measure how faithful the scores are, beside random ones.")
@click.option("--resume", type=PATH, help="Go on with a run of --data --evaluate.")
@click.option(
    "--out",
    type=PATH,
    help="Of a text: file to write, .html, .png, .svg, .pdf, .tex or .csv. Of --data: folder for runs.",
)
@prompt_options
@model_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def command(model: str, text: str | None, data: Path | None, as_json: bool, **options: Any) -> None:
    """Score the tokens of TEXT for a prediction of MODEL, or judge methods over a data set.

    Computed in float32 unless --dtype says otherwise. Scores are hypotheses about the model: look at
    --evaluate before believing them.

    \b
    workbench attribute smollm2-135m "The keys to the cabinet" --target " are" --contrast " is" --out map.html
    workbench attribute sentiment-encoder --data dev.tsv --limit 100 --evaluate
    workbench attribute mymodule:predict "A wonderful film" --method kernel_shap
    workbench attribute sentiment-encoder "A wonderful film" --attack hotflip
    """
    if (text is None) == (data is None):
        raise WorkbenchError("give either a TEXT in quotes or --data FILE; see: workbench attribute --help")
    if data is not None and not options["evaluate"]:
        raise WorkbenchError(
            "--data needs --evaluate: it measures methods over texts; for one map give a TEXT"
        )
    if options["attack"] is not None and (data is not None or options["pair"] is not None):
        raise WorkbenchError("--attack is of one TEXT; leave out --data and --pair")
    for option in ("limit", "text_column", "label_column", "rationale_column", "resume"):
        if data is None and options[option] is not None:
            raise WorkbenchError(f"--{option.replace('_', '-')} is of --data; leave it out with a TEXT")
    if data is not None:
        _evaluate(model, data, options, as_json)
    else:
        _explain(model, str(text), options, as_json)


def _method_options(options: dict[str, Any]) -> SaliencyOptions:
    from workbench.analysis.saliency import OcclusionUnit, SaliencyOptions

    chosen = {key: options[key] for key in ("steps", "samples", "layer", "seed", "keep_first")}
    return SaliencyOptions(unit=OcclusionUnit(options["unit"]), **chosen)


def _names(given: tuple[str, ...], default: tuple[str, ...], of_function: bool = False) -> list[str]:
    from workbench.analysis.saliency import METHODS

    names = [name for part in given or default for name in part.split(",")]
    if names == ["all"]:
        return [name for name in METHODS if not of_function or METHODS.get(name).answers_only]
    for name in names:
        METHODS.get(name)
    return list(dict.fromkeys(names))


def _explain(name: str, text: str, options: dict[str, Any], as_json: bool) -> None:
    from workbench.analysis.saliency import attribute
    from workbench.models import as_model
    from workbench.models.function_names import is_function_name

    check_figure(options["out"], ".tex")
    of_function = is_function_name(name)
    default = "occlusion" if of_function else "integrated_gradients"
    methods = _names(options["methods"], (default,), of_function)
    chosen = _method_options(options)
    model = load_subject(name, options)
    if options["evaluate"] or options["each"]:
        as_model(model)  # a function is refused before it is asked
    if options["attack"] is not None:
        return _attack(model, text, options, as_json)
    source = text if options["pair"] is None else (text, options["pair"])
    if options["each"]:
        return _each(as_model(model), source, methods[0], options, as_json)
    asked = {
        key: options[key] for key in ("target", "contrast", "position", "output", "baseline", "normalise")
    }
    found = [
        attribute(
            model,
            source,
            method,
            words=options["words"],
            options=chosen,
            seed=chosen.seed,
            allow_cost=options["yes"],
            **asked,
        )
        for method in methods
    ]
    for note in dict.fromkeys(one.note for one in found if one.note):
        say(f"note: {note}", error=True)
    if options["out"] is not None:
        saved(_drawn(found, options["bars"]), options["out"])
    report = _examined(as_model(model), source, methods, options) if options["evaluate"] else None
    if as_json:
        return say_json(_plain(model, found, report, options["out"]))
    say(f"{model_line(model)}\n{scores_text(found)}")
    if report is not None:
        say("\n" + examination_text(report))
    if options["out"] is not None:
        say(str(options["out"]))


def _drawn(found: list[Attribution], bars: bool) -> View:
    from workbench.figures.saliency import attribution_bars, attribution_view, compare_attributions

    if len(found) > 1:
        return compare_attributions(found)
    return attribution_bars(found[0]) if bars else attribution_view(found[0])


def _each(
    model: LoadedModel, source: str | tuple[str, str], method: str, options: dict[str, Any], as_json: bool
) -> None:
    from workbench.analysis.saliency import AttributionWarning, attribute_generated
    from workbench.figures.saliency import generation_map

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AttributionWarning)
        found, generated = attribute_generated(
            model,
            source,
            method,
            target=options["target"],
            baseline=options["baseline"],
            options=_method_options(options),
            allow_cost=options["yes"],
        )
    if options["out"] is not None:
        saved(generation_map(found, generated), options["out"])
    if as_json:
        say_json({"written": generated, **_plain(model, found, None, options["out"])})
        return
    say(model_line(model))
    for token, attribution in zip(generated, found, strict=True):
        probability = math.exp(attribution.value)
        best = ", ".join(
            f"{printable(attribution.tokens[i])} {attribution.scores[i]:+.3f}"
            for i in attribution.order()[:4]
        )
        say(f"{printable(token)} (p {probability:.3f}, entropy {attribution.entropy:.2f} bits): {best}")


def _attack(model: LoadedModel | TextFunction, text: str, options: dict[str, Any], as_json: bool) -> None:
    from workbench.analysis.attacks import ATTACKS
    from workbench.models import as_model

    attack = options["attack"]
    found = ATTACKS[attack](as_model(model) if attack == "hotflip" else model, text)
    labels = [_label(model, number) for number in (found.before, found.after)]
    if as_json:
        say_json({"model": model.name, "attack": attack, **asdict(found), "labels": labels})
        return
    done = "taken away" if attack == "input_reduction" else "exchanged"
    outcome = f"{'succeeded' if found.success else 'failed'}: {counted(found.words_changed, 'word')} {done}"
    say(
        f"{model_line(model)}\n{attack}, {outcome}\n"
        f"{labels[0]}: {printable(found.original)}\n{labels[1]}: {printable(found.changed)}"
    )


def _label(model: Any, number: int) -> str:
    """The name of a class, of a function or a head."""
    return str((getattr(model, "labels", None) or model.config.id2label)[number])


def _examined(
    model: LoadedModel, source: str | tuple[str, str], methods: list[str], options: dict[str, Any]
) -> Examination:
    from workbench.analysis.faithfulness_examine import CHEAP_METHODS, examine

    return examine(
        model,
        source,
        methods if options["methods"] else (*methods, *CHEAP_METHODS),
        options=_method_options(options),
        progress=shows_progress(),
        allow_cost=options["yes"],
        **{key: options[key] for key in ("target", "contrast", "position", "baseline")},
    )


def _evaluate(name: str, data: Path, options: dict[str, Any], as_json: bool) -> None:
    from workbench.analysis.faithfulness_examine import CHEAP_METHODS
    from workbench.analysis.faithfulness_run import SaliencySettings, evaluate_saliency, read_texts

    for option in ("pair", "target", "contrast", "position", "output", "keep_first"):
        if options[option] not in (None, False):
            raise WorkbenchError(f"--{option.replace('_', '-')} is of a TEXT; leave it out with --data")
    _method_options(options)
    check_runs(options["out"])
    same = ["limit", "text_column", "label_column", "rationale_column", "baseline"]
    same += ["steps", "samples", "layer", "unit", "seed"]
    settings = SaliencySettings(
        data=str(data),
        methods=tuple(_names(options["methods"], CHEAP_METHODS)),
        **{key: options[key] for key in same},
    )
    texts = read_texts(settings)  # a wrong file is reported before a model is loaded
    stored = stored_run("attribute", options["resume"], options["out"])
    model = load_named(name, options)
    run = evaluate_saliency(
        model,
        settings,
        texts=texts,
        out=options["out"],
        resume=None if stored is None else stored.path,
        progress=shows_progress(),
        allow_cost=options["yes"],
    )
    if as_json:
        say_json({**run_summary(run), "notes": run.notes})
        return
    say(f"{model_line(run)}\n{measures_text(run.results)}")
    say(f"run: {run.path}")


def _plain(
    model: LoadedModel | TextFunction, found: list[Attribution], report: Examination | None, out: Path | None
) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "model": model_record(model),
        "attributions": [
            {
                **a.about(),
                "tokens": list(a.tokens),
                "scores": a.scores.tolist(),
                "explained": list(a.attributed),
            }
            for a in found
        ],
        "file": None if out is None else str(out),
    }
    if report is not None:
        statistics = (report.measures, report.agreement, report.randomisation)
        shown["evaluation"] = {
            s.name: {
                str(method): dict(zip(map(str, s.labels[s.axes[1]]), row, strict=True))
                for method, row in zip(s.labels["method"], _finite(s.values), strict=True)
            }
            for s in statistics
        }
    return shown


def _finite(values: Any) -> list[list[float | None]]:
    return [[v if math.isfinite(v) else None for v in row] for row in values.tolist()]
