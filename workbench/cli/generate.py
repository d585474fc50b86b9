"""``workbench generate``: what a model writes after a text, and what else was likely at each token."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workbench.cli._shared import (
    COUNT,
    NUMBER,
    PATH,
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
from workbench.errors import WorkbenchError
from workbench.terminal import counted, say, say_json

if TYPE_CHECKING:
    from workbench.analysis.generation import Generation
    from workbench.figures import View
    from workbench.models import LoadedModel

__all__ = ["command"]


@click.command(name="generate")
@click.argument("model")
@click.argument("text")
@click.option("--max-tokens", type=COUNT, default=20, show_default=True, help="The most that are generated.")
@click.option("--beams", type=COUNT, default=1, show_default=True, help="Beam search; all beams are shown.")
@click.option("--samples", type=Whole(0), default=0, show_default=True, help="Sample so many texts instead.")
@click.option("--temperature", type=NUMBER, default=1.0, show_default=True, help="Of --samples.")
@click.option("--top-k", type=Whole(0), default=0, show_default=True, help="Of --samples: tokens; 0 is all.")
@click.option("--top-p", type=NUMBER, default=1.0, show_default=True, help="Of --samples: probability mass.")
@click.option("--seed", type=SEED, default=0, show_default=True, help="Of --samples.")
@click.option("--top", type=Whole(1, 50), default=5, show_default=True, help="Likeliest tokens shown a step.")
@click.option(
    "--saliency", help="A method of workbench attribute: --out is the map of what each token rests on."
)
@click.option("--out", type=PATH, help="File: .html, .svg, .png, .pdf or .csv.")
@prompt_options
@model_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def command(model: str, text: str, as_json: bool, **options: Any) -> None:
    """Generate after TEXT (from it, for an encoder-decoder): greedily, by beam search, or by sampling.

    Each token has its probability, rank and the entropy (bits) of the model's own distribution, before temperature,
    top-k and top-p change it.

    \b
    workbench generate smollm2-135m "The capital of France is" --max-tokens 8
    workbench generate smollm2-135m "The capital of France is" --beams 4 --out beams.html
    workbench generate novels-decoder "She was" --samples 3 --top-p 0.9
    workbench generate novels-decoder "The boys at home" --saliency occlusion --out map.html
    """
    check_figure(options["out"])
    if options["saliency"] is not None and options["out"] is None:
        raise WorkbenchError("--saliency draws a map; name its file: --out map.html")
    from workbench.analysis.generation import Decoding, generate_all

    names = ("beams", "samples", "temperature", "top_k", "top_p", "seed")
    decoding = Decoding(**{name: options[name] for name in names})
    loaded = load_named(model, options)
    found = generate_all(loaded, text, options["max_tokens"], top=options["top"], decoding=decoding)
    path = None
    if options["out"] is not None:
        path = saved(_view(loaded, text, found, options["saliency"]), options["out"])
    if as_json:
        record = {
            "file": None if path is None else str(path),
            "model": model_record(loaded),
            "texts": [_record(one) for one in found],
        }
        say_json(record)
        return
    say(f"{model_line(loaded)}: {counted(len(found), 'text')} after {text!r}\n")
    _print(found, path)


def _view(model: LoadedModel, text: str, found: list[Generation], method: str | None) -> View:
    """The texts side by side; with a ``method`` the map of the first one's tokens and what they rest on."""
    from workbench.analysis.saliency import attribute_generated
    from workbench.figures import generation_view
    from workbench.figures.saliency import generation_map

    if method is None:
        return generation_view(found)
    return generation_map(*attribute_generated(model, text, method, generation=found[0]))


def _record(found: Generation) -> dict[str, Any]:
    frame = found.to_frame().drop(columns="likeliest")
    tokens = frame.to_dict("records")
    for row, step in zip(tokens, found.steps, strict=True):
        row["likeliest"] = [list(pair) for pair in step.candidates]
    return {"generated": found.generated, "log_probability": found.log_probability, "tokens": tokens}


def _print(found: list[Generation], path: Path | None) -> None:
    from workbench.cli._tables import table
    from workbench.text import printable

    for number, one in enumerate(found, 1):
        mark = f"{number}: " if len(found) > 1 else ""
        say(f"{mark}{one.generated!r}  log-probability {one.log_probability:.3f} nats")
    rows = [
        (printable(s.token), f"{s.probability:.3f}", f"{s.entropy:.2f}", s.rank, _likeliest(s.candidates))
        for s in found[0].steps
    ]
    say()
    say(table(("token", "probability", "entropy (bits)", "rank", "likeliest"), rows))
    say(f"\n{path}" if path else "\nsee all of it with --out generated.html")


def _likeliest(candidates: tuple[tuple[str, float], ...]) -> str:
    from workbench.text import printable

    return "  ".join(f"{printable(token)} {probability:.2f}" for token, probability in candidates[:3])
