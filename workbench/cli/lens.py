"""``workbench lens``: what each layer of a model would predict."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workbench.cli._inside import load_in_float32, saved
from workbench.cli._options import model_options
from workbench.errors import WorkbenchError

if TYPE_CHECKING:
    from workbench.analysis.lens import LensReading
    from workbench.models import LoadedModel

__all__ = ["command"]


@click.command(name="lens")
@click.argument("model")
@click.argument("text")
@click.option("--target", help='A word to follow through the layers, such as " Paris"; else each own output.')
@click.option("--contrast", help="Another word, for the margin of the target over it.")
@click.option("--target-text", help="What an encoder-decoder's decoder reads; generated where not given.")
@click.option(
    "--view",
    type=click.Choice(["grid", "trajectory", "attribution"]),
    default="grid",
    show_default=True,
    help="attribution: what each head and layer adds to the target's logit.",
)
@click.option("--position", type=int, default=None, help="Place of trajectory and attribution, from 0 or -1.")
@click.option("--top", type=click.IntRange(1, 50), default=5, show_default=True, help="Tokens kept a cell.")
@click.option(
    "--tuned",
    type=click.Path(path_type=Path),
    help="Folder of a tuned lens; trained with --train, or beside the model.",
)
@click.option("--train", type=click.Path(path_type=Path), help="Corpus file to train a tuned lens on.")
@click.option("--steps", type=click.IntRange(1), default=200, show_default=True, help="Steps of --train.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of --train.")
@click.option("--out", type=click.Path(path_type=Path), help="File: .html, .svg, .png, .pdf or .csv.")
@model_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def command(model: str, text: str, as_json: bool, **options: Any) -> None:
    """Show what each layer of MODEL would predict for TEXT, read off by the model's own output layer.

    A target of several pieces is followed by its first, and the result says so. Computed in float32 unless
    --dtype says otherwise.

    \b
    workbench lens smollm2-135m "The capital of France is" --out lens.html
    workbench lens smollm2-135m "The capital of France is" --target " Paris" --view attribution --out a.html
    workbench lens smollm2-135m "The capital of France is" --train corpus.txt --tuned lens-folder
    """
    loaded = load_in_float32(model, options)
    if options["view"] == "attribution":
        _attribution(loaded, text, options, as_json)
        return
    reading = _reading(loaded, text, options)
    _say(reading, _saved_view(reading, options), options, as_json)


def _reading(model: LoadedModel, text: str, options: dict[str, Any]) -> LensReading:
    from workbench.analysis.lens import logit_lens

    chosen = {name: options[name] for name in ("target", "contrast", "target_text", "top")}
    if options["tuned"] is None and options["train"] is None:
        return logit_lens(model, text, **chosen)
    raise WorkbenchError("--tuned is not there yet")


def _saved_view(reading: LensReading, options: dict[str, Any]) -> Path | None:
    from workbench.figures.lens import lens_grid, lens_trajectory

    if options["out"] is None:
        return None
    if options["view"] == "trajectory":
        place = options["position"]
        return saved(lens_trajectory(reading, -1 if place is None else place), options["out"])
    return saved(lens_grid(reading), options["out"])


def _say(reading: LensReading, path: Path | None, options: dict[str, Any], as_json: bool) -> None:
    place = -1 if options["position"] is None else options["position"]
    if as_json:
        click.echo(json.dumps(_record(reading, place, path), ensure_ascii=False))
        return
    from workbench.cli._tables import table

    click.echo(f"{reading.model}, {reading.lens} lens, after {reading.tokens[place]!r}:\n")
    rows = [
        (
            "output" if n == reading.layers - 1 else n,
            " ".join(reading.top_tokens[n][place][:3]),
            float(reading.top_probabilities[n, place, 0]),
            float(reading.entropy[n, place]),
            math.exp(float(reading.target_log_probability[n, place])),
            int(reading.target_rank[n, place]),
        )
        for n in range(reading.layers)
    ]
    click.echo(table(("layer", "best tokens", "probability", "entropy", "target prob.", "target rank"), rows))
    click.echo(f"\nthe prediction stays from layer {reading.settling[place]} on")
    for note in reading.notes:
        click.echo(f"note: {note}", err=True)
    click.echo(str(path) if path else "draw it with --out lens.html")


def _record(reading: LensReading, place: int, path: Path | None) -> dict[str, Any]:
    return {
        "file": None if path is None else str(path),
        "model": reading.model,
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
    from workbench.figures.direct import attribution_grid

    names = ("target", "contrast", "position", "target_text")
    shares = direct_logit_attribution(model, text, **{name: options[name] for name in names})
    effects = shares.statistic()
    path = None if options["out"] is None else saved(attribution_grid(effects), options["out"])
    frame = effects.to_frame()
    order = frame["value"].abs().sort_values(ascending=False, kind="stable").index
    if as_json:
        said = {
            "file": None if path is None else str(path),
            "model": shares.model,
            "logit": shares.logit,
            "embeddings": shares.embeddings,
            "biases": shares.biases,
            "attention": shares.attention.tolist(),
            "mlp": shares.mlp.tolist(),
            "remainder": shares.remainder,
            "note": shares.note,
            "effects": frame.to_dict(orient="records"),
        }
        click.echo(json.dumps(said, ensure_ascii=False, default=str))
        return
    from workbench.cli._tables import table

    click.echo(f"{shares.model}: {effects.note}\n")
    click.echo(table(frame.columns, frame.loc[order[:12]].itertuples(index=False)))
    click.echo(f"\n{path}" if path else "\ndraw it with --out attribution.html")
