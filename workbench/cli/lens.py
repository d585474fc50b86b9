"""``workbench lens``: what each layer of a model would predict."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workbench.cli._shared import (
    COUNT,
    PATH,
    PLACE,
    SEED,
    Whole,
    check_figure,
    load_named,
    model_line,
    model_options,
    model_record,
    prompt_options,
    saved,
)
from workbench.errors import DataError, WorkbenchError
from workbench.terminal import counted, say, say_json, shows_progress

if TYPE_CHECKING:
    from workbench.analysis.lens import LensReading, TunedLens
    from workbench.analysis.neurons import Firing, NeuronPromotion
    from workbench.models import LoadedModel

__all__ = ["command", "show_neuron"]


@click.command(name="lens")
@click.argument("model")
@click.argument("text", required=False)
@click.option("--target", help='A word to follow through the layers, such as " Paris"; else each own output.')
@click.option("--contrast", help="Another word, for the margin of the target over it.")
@click.option("--target-text", help="What an encoder-decoder's decoder reads. Default: what it generates.")
@click.option(
    "--view",
    type=click.Choice(["grid", "trajectory", "attribution"]),
    default="grid",
    show_default=True,
    help="attribution: what each head and layer adds to the target's logit.",
)
@click.option(
    "--position", type=PLACE, default=None, help="Place of trajectory and attribution, from 0 or -1."
)
@click.option("--top", type=Whole(1, 50), default=5, show_default=True, help="Tokens kept a cell.")
@click.option("--tuned", is_flag=True, help="Read through the model's tuned lens.")
@click.option("--train", type=PATH, help="Train a tuned lens on a corpus file first.")
@click.option("--lens-folder", type=PATH, help="Where it lies; else beside the model's weights.")
@click.option("--steps", type=COUNT, default=200, show_default=True, help="Steps of --train.")
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of --train.")
@click.option("--neuron", help="Instead: what feed-forward neuron LAYER.NUMBER promotes; see --corpus.")
@click.option("--corpus", type=PATH, help="Texts, one a line, or hub:NAME: where --neuron fires.")
@click.option("--limit", type=COUNT, help="Only the first N texts of --corpus and --train.")
@click.option("--out", type=PATH, help="File: .html, .svg, .png, .pdf or .csv.")
@prompt_options
@model_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def command(model: str, text: str | None, as_json: bool, **options: Any) -> None:
    """Show what each layer of MODEL would predict for TEXT, read off by the model's own output layer.

    A target of several pieces is followed by its first, and the result says so. Computed in float32 unless
    --dtype says otherwise.

    \b
    workbench lens smollm2-135m "The capital of France is" --out lens.html
    workbench lens smollm2-135m "The capital of France is" --target " Paris" --view attribution --out a.html
    workbench lens novels-decoder "The capital of France is" --train corpus.txt --lens-folder lens
    workbench lens smollm2-135m --neuron 12.345 --corpus corpus.txt --limit 200
    """
    from workbench.analysis.lens import find_tuned_lens
    from workbench.data.corpus import read_corpus

    if (text is None) == (options["neuron"] is None):
        raise WorkbenchError(
            "give either a TEXT in quotes or --neuron LAYER.NUMBER; see: workbench lens --help"
        )
    check_figure(options["out"])
    for option in ("corpus", "train"):
        if options[option] is not None:
            read_corpus(
                options[option], options["limit"]
            )  # a wrong file is reported before a model is loaded
    if options["neuron"] is not None:
        show_neuron(model, options, as_json)
        return
    if options["view"] == "attribution" and (options["tuned"] or options["train"]):
        raise WorkbenchError("direct attribution reads no tuned lens; leave out --tuned and --train")
    if options["tuned"] and options["train"] is None and options["lens_folder"] is not None:
        find_tuned_lens(options["lens_folder"])
    loaded = load_named(model, options)
    assert text is not None
    if options["view"] == "attribution":
        _attribution(loaded, text, options, as_json)
        return
    reading = _reading(loaded, text, options)
    place, length = options["position"] or 0, len(reading.tokens)
    if not -length <= place < length:
        raise WorkbenchError(
            f"--position {place} is out of range; the text has {counted(length, 'token')}, from 0"
        )
    _say(loaded, reading, _saved_view(reading, options), options, as_json)


def _reading(model: LoadedModel, text: str, options: dict[str, Any]) -> LensReading:
    from workbench.analysis.lens import logit_lens, tuned_lens

    chosen = {name: options[name] for name in ("target", "contrast", "target_text", "top")}
    if not options["tuned"] and options["train"] is None:
        return logit_lens(model, text, **chosen)
    return tuned_lens(model, _tuned(model, options), text, **chosen)


def _tuned(model: LoadedModel, options: dict[str, Any]) -> TunedLens:
    """The lens beside the model or in the folder named, trained first if asked."""
    from workbench.analysis.lens import load_tuned_lens, save_tuned_lens, train_tuned_lens, tuned_lens_folder

    folder = options["lens_folder"] or tuned_lens_folder(model)
    if options["train"] is None:
        return load_tuned_lens(folder, model)
    from tqdm.auto import tqdm

    from workbench.data.corpus import read_corpus

    lens = train_tuned_lens(
        model,
        read_corpus(options["train"], options["limit"]),
        steps=options["steps"],
        seed=options["seed"],
        progress=lambda steps: tqdm(steps, unit="step", leave=False, disable=not shows_progress()),
    )
    save_tuned_lens(lens, folder)
    before, after = (
        sum(v[:-1]) / len(v[:-1]) for v in (lens.record.logit_divergence, lens.record.divergence)
    )
    say(
        f"tuned lens in {folder}: mean divergence of the layers on held-out text {before:.3f} -> {after:.3f} nats",
        error=True,
    )
    return lens


def _saved_view(reading: LensReading, options: dict[str, Any]) -> Path | None:
    from workbench.figures.lens import lens_grid, lens_trajectory

    if options["out"] is None:
        return None
    if options["view"] == "trajectory":
        place = options["position"]
        return saved(lens_trajectory(reading, -1 if place is None else place), options["out"])
    return saved(lens_grid(reading), options["out"])


def _say(
    model: LoadedModel, reading: LensReading, path: Path | None, options: dict[str, Any], as_json: bool
) -> None:
    place = -1 if options["position"] is None else options["position"]
    if as_json:
        say_json({"model": model_record(model), **_record(reading, place, path)})
        return
    from workbench.cli._tables import table

    say(f"{model_line(model)}, {reading.lens} lens, after {reading.tokens[place]!r}:\n")
    rows = [
        (
            "output" if n == reading.layers - 1 else n,
            " ".join(reading.top_tokens[n][place][:3]).replace("\n", "↵"),
            float(reading.top_probabilities[n, place, 0]),
            float(reading.entropy[n, place]),
            math.exp(float(reading.target_log_probability[n, place])),
            int(reading.target_rank[n, place]),
        )
        for n in range(reading.layers)
    ]
    say(table(("layer", "best tokens", "probability", "entropy", "target prob.", "target rank"), rows))
    say(f"\nthe prediction stays from layer {reading.settling[place]} on")
    for note in reading.notes:
        say(f"note: {note}", error=True)
    say(str(path) if path else "draw it with --out lens.html")


def _record(reading: LensReading, place: int, path: Path | None) -> dict[str, Any]:
    return {
        "file": None if path is None else str(path),
        "lens": reading.lens,
        "tokens": list(reading.tokens),
        "settling": [int(n) for n in reading.settling],
        "predictions": [layer[place][0] for layer in reading.top_tokens],
        "entropy": [round(float(v), 5) for v in reading.entropy[:, place]],
        "target rank": [int(v) for v in reading.target_rank[:, place]],
        "notes": list(reading.notes),
    }


def _attribution(model: LoadedModel, text: str, options: dict[str, Any], as_json: bool) -> None:
    from workbench.analysis.direct import direct_logit_attribution
    from workbench.figures.patching import attribution_grid

    names = ("target", "contrast", "position", "target_text")
    shares = direct_logit_attribution(model, text, **{name: options[name] for name in names})
    effects = shares.statistic()
    path = None if options["out"] is None else saved(attribution_grid(effects), options["out"])
    frame = effects.to_frame()
    order = frame["value"].abs().sort_values(ascending=False, kind="stable").index
    if as_json:
        said = {
            "file": None if path is None else str(path),
            "model": model_record(model),
            "logit": shares.logit,
            "embeddings": shares.embeddings,
            "biases": shares.biases,
            "attention": shares.attention.tolist(),
            "mlp": shares.mlp.tolist(),
            "remainder": shares.remainder,
            "note": shares.note,
            "effects": frame.to_dict(orient="records"),
        }
        say_json(said, default=str)
        return
    from workbench.cli._tables import table

    say(f"{model_line(model)}: {effects.note}\n")
    say(table(frame.columns, frame.loc[order[:12]].itertuples(index=False)))
    say(f"\n{path}" if path else "\ndraw it with --out attribution.html")


def show_neuron(name: str, options: dict[str, Any], as_json: bool) -> None:
    """Print one neuron; raises for numbers out of range, and for a model in which nothing can be said."""
    from workbench.models import Kind

    layer, neuron = _numbers(options["neuron"])
    model = load_named(name, options)
    promotion = None
    if model.kind in (Kind.CAUSAL, Kind.SEQ2SEQ) or options["corpus"] is None:
        from workbench.analysis.neurons import promoted_tokens

        promotion = promoted_tokens(model, layer, neuron)
    firings = [] if options["corpus"] is None else _firings(model, layer, neuron, options)
    if as_json:
        said = {
            "model": model_record(model),
            "promotion": None if promotion is None else asdict(promotion),
            "firings": [asdict(firing) for firing in firings],
        }
        say_json(said)
        return
    _print(model_line(model), (layer, neuron), promotion, firings)


def _numbers(text: str) -> tuple[int, int]:
    layer, _, neuron = text.partition(".")
    if not (layer.isdigit() and neuron.isdigit()):
        raise DataError(f"{text!r} is no neuron; write its layer and number, both from 0: 12.345")
    return int(layer), int(neuron)


def _firings(model: LoadedModel, layer: int, neuron: int, options: dict[str, Any]) -> list[Firing]:
    from workbench.analysis.neurons import top_activations
    from workbench.data.corpus import read_corpus
    from workbench.text import align_words

    corpus = read_corpus(options["corpus"], options["limit"])
    trees = [align_words(t.forms, model.tokenizer, space_after=t.space_after) for t in corpus.trees]
    return top_activations(model, trees or list(corpus.lines), layer, [neuron], count=10)[0]


def _print(
    name: str, neuron: tuple[int, int], promotion: NeuronPromotion | None, firings: list[Firing]
) -> None:
    from workbench.cli._tables import table

    say(f"{name}, neuron {neuron[1]} of layer {neuron[0]}")
    if promotion is not None:
        rows = [
            (up, f"{gain:+.3f}", down, f"{loss:+.3f}")
            for (up, gain), (down, loss) in zip(promotion.raised, promotion.lowered, strict=True)
        ]
        say("\n" + table(("raises", "logit", "lowers", "logit "), rows))
    if firings:
        found = [
            (
                f"{f.activation:.3f}",
                f.text,
                f.position,
                f"{' '.join(f.before)} [[{f.token}]] {' '.join(f.after)}",
            )
            for f in firings
        ]
        say("\n" + table(("activation", "text", "position", "tokens"), found))
