"""What ``workbench lens --neuron`` says: the tokens that a neuron promotes, and where it fires."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from workbench.cli._inside import load_named
from workbench.cli._model import model_line, model_record
from workbench.errors import DataError
from workbench.terminal import say, say_json

if TYPE_CHECKING:
    from workbench.analysis.neurons import Firing, NeuronPromotion
    from workbench.models import LoadedModel

__all__ = ["show_neuron"]


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
