"""``workbench generate``: what a model writes after a text, and what else was likely at each token."""

from __future__ import annotations

import math
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
    from workbench.analysis.decoding import Decoding
    from workbench.analysis.generation import Generation
    from workbench.figures import View
    from workbench.models import LoadedModel
    from workbench.scoring import Reward

__all__ = ["command"]


@click.command(name="generate")
@click.argument("model")
@click.argument("text")
@click.option("--max-tokens", type=COUNT, default=20, show_default=True, help="The most that are generated.")
@click.option("--beams", type=COUNT, default=1, show_default=True, help="Beam search; all beams are shown.")
@click.option("--samples", type=Whole(0), default=0, show_default=True, help="Sample so many texts instead.")
@click.option("--best-of", type=Whole(0), default=0, help="Sample so many, best first by --reward.")
@click.option(
    "--reward", help="Of --best-of: model:NAME[#LABEL], pattern:REGEX, python:MODULE:FUNCTION, suite:FILE …"
)
@click.option(
    "--contrastive",
    "penalty",
    type=NUMBER,
    default=0.0,
    help="Contrastive search with this penalty, such as 0.6, among --top-k tokens (4).",
)
@click.option("--temperature", type=NUMBER, default=1.0, show_default=True, help="Of samples.")
@click.option("--top-k", type=Whole(0), default=0, show_default=True, help="Of samples: tokens; 0 is all.")
@click.option("--top-p", type=NUMBER, default=1.0, show_default=True, help="Of samples: probability mass.")
@click.option("--seed", type=SEED, default=0, show_default=True, help="Of samples.")
@click.option("--top", type=Whole(1, 50), default=5, show_default=True, help="Likeliest tokens shown a step.")
@click.option(
    "--saliency", help="A method of workbench attribute: --out is the map of what each token rests on."
)
@click.option("--out", type=PATH, help="File: .html, .svg, .png, .pdf or .csv.")
@prompt_options
@model_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def command(model: str, text: str, as_json: bool, **options: Any) -> None:
    """Generate after TEXT (from it, for an encoder-decoder): greedily, by beam search, by contrastive search, by
    sampling, or as the best of several samples by a reward.

    Each token has its probability, rank and the entropy (bits) of the model's own distribution, before temperature,
    top-k and top-p change it. Beside each text stand its mean log-probability, the shares of different tokens and pairs
    of tokens (distinct-1, distinct-2), and the share of runs of four tokens that it had before (repetition).

    \b
    workbench generate smollm2-135m "The capital of France is" --max-tokens 8
    workbench generate smollm2-135m "The capital of France is" --beams 4 --out beams.html
    workbench generate novels-decoder "She was" --samples 3 --top-p 0.9
    workbench generate smollm2-135m "The ship" --contrastive 0.6 --top-k 5 --max-tokens 60
    workbench generate novels-decoder "She was" --best-of 16 --reward model:sentiment-encoder#positive
    workbench generate novels-decoder "The boys at home" --saliency occlusion --out map.html
    """
    check_figure(options["out"])
    if options["saliency"] is not None and options["out"] is None:
        raise WorkbenchError("--saliency draws a map; name its file: --out map.html")
    from workbench.analysis.decoding import Decoding, best_of_kl
    from workbench.analysis.generation import generate_all

    decoding = Decoding(**{name: options[name] for name in Decoding.__dataclass_fields__})
    reward = _reward(decoding, options["reward"])
    loaded = load_named(model, options)
    how: dict[str, Any] = {"top": options["top"], "decoding": decoding, "reward": reward}
    found = generate_all(loaded, text, options["max_tokens"], **how)
    path = None
    if options["out"] is not None:
        path = saved(_view(loaded, text, found, options["saliency"]), options["out"])
    if as_json:
        record = {
            "file": None if path is None else str(path),
            "model": model_record(loaded),
            "strategy": str(decoding.strategy),
            **({} if reward is None else {"reward": reward.name, "kl_bound": best_of_kl(decoding.best_of)}),
            "texts": [_record(one) for one in found],
        }
        say_json(record)
        return
    say(f"{model_line(loaded)}, {decoding.strategy}: {counted(len(found), 'text')} after {text!r}\n")
    _print(found)
    if reward is not None:
        say(f"\n{_best_of_line(decoding.best_of, reward.name)}")
    say(f"\n{path}" if path else "\nsee all of it with --out generated.html")


def _reward(decoding: Decoding, name: str | None) -> Reward | None:
    """The reward that --best-of needs, and nothing else takes."""
    from workbench.scoring import find_reward

    if decoding.best_of and name is None:
        raise WorkbenchError("--best-of chooses by a reward; add --reward, such as --reward pattern:REGEX")
    if name is not None and not decoding.best_of:
        raise WorkbenchError("--reward is of --best-of; add --best-of 16, or leave it out")
    return None if name is None else find_reward(name)


def _best_of_line(count: int, reward: str) -> str:
    from workbench.analysis.decoding import best_of_kl
    from workbench.citations import papers

    sources = "; ".join(str(paper).partition(", ")[0] for paper in papers("analysis", "best of n"))
    return (
        f"ordered by {reward}; the best of {count} samples is at most log n - (n - 1) / n = "
        f"{best_of_kl(count):.3f} nats (KL) from the distribution that they are drawn from ({sources})"
    )


def _view(model: LoadedModel, text: str, found: list[Generation], method: str | None) -> View:
    """The texts side by side; with a ``method`` the map of the first one's tokens and what they rest on."""
    from workbench.analysis.saliency import attribute_generated
    from workbench.figures import generation_view
    from workbench.figures.saliency import generation_map

    if method is None:
        return generation_view(found)
    return generation_map(*attribute_generated(model, text, method, generation=found[0]))


def _record(found: Generation) -> dict[str, Any]:
    from workbench.analysis.generation import texts_frame

    frame = found.to_frame().drop(columns="likeliest")
    tokens = frame.to_dict("records")
    for row, step in zip(tokens, found.steps, strict=True):
        row["likeliest"] = [list(pair) for pair in step.candidates]
    (numbers,) = texts_frame([found]).to_dict("records")
    return {**{str(name): value for name, value in numbers.items()}, "tokens": tokens}


def _print(found: list[Generation]) -> None:
    from workbench.cli._tables import table
    from workbench.text import printable

    for number, one in enumerate(found, 1):
        mark = f"{number}: " if len(found) > 1 else ""
        worth = "" if one.reward is None else f"reward {one.reward:.4g}, "
        say(f"{mark}{one.generated!r}  {worth}log-probability {one.log_probability:.3f} nats")
    say()
    say(table(_NUMBERS, [_numbers(number, one) for number, one in enumerate(found, 1)]))
    rows = [
        (printable(s.token), f"{s.probability:.3f}", f"{s.entropy:.2f}", s.rank, _likeliest(s.candidates))
        for s in found[0].steps
    ]
    say()
    say(table(("token", "probability", "entropy (bits)", "rank", "likeliest"), rows))


_NUMBERS = ("text", "tokens", "nats a token", "distinct-1", "distinct-2", "repetition")


def _numbers(number: int, found: Generation) -> tuple[object, ...]:
    shares = (found.distinct(1), found.distinct(2), found.repetition)
    shown = ("-" if math.isnan(share) else f"{share:.2f}" for share in shares)
    return number, len(found.steps), f"{found.mean_log_probability:.3f}", *shown


def _likeliest(candidates: tuple[tuple[str, float], ...]) -> str:
    from workbench.text import printable

    return "  ".join(f"{printable(token)} {probability:.2f}" for token, probability in candidates[:3])
