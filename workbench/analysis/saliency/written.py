"""Each token that an encoder-decoder writes, explained by the source: one attribution a token."""

from __future__ import annotations

from dataclasses import replace

from workbench.analysis.saliency._attribute import attribute_targets
from workbench.analysis.saliency._methods import SaliencyOptions
from workbench.analysis.saliency._record import Attribution
from workbench.analysis.saliency.attribution_target import TargetSum
from workbench.analysis.saliency.baselines import Baseline
from workbench.analysis.saliency.targets import TargetRequest, ask
from workbench.models import Kind, LoadedModel
from workbench.trace import Text

__all__ = ["attribute_written"]


def attribute_written(
    model: LoadedModel,
    text: Text,
    method: str = "integrated_gradients",
    *,
    target: str | None = None,
    baseline: Baseline = None,
    options: SaliencyOptions | None = None,
    allow_cost: bool = False,
) -> tuple[list[Attribution], tuple[str, ...]]:
    """Scores of the source for each token of ``target`` (by default what the model writes), and those tokens.

    Each is explained given the tokens before it. :func:`workbench.figures.saliency.generation_map` draws them.
    Raises :class:`~workbench.errors.ModelError` for a model that is no encoder-decoder.
    """
    model.require(Kind.SEQ2SEQ, verb="explaining each written token")
    whole = ask(model, text, TargetRequest(target))
    terms = whole.parts[0].terms
    written = tuple(model.tokenizer.convert_ids_to_tokens([term.index for term in terms]))
    questions = [
        replace(
            whole, parts=(TargetSum((term,)),), label=f"log p({token!r})", note="given the tokens before it"
        )
        for term, token in zip(terms, written, strict=True)
    ]
    return attribute_targets(model, questions, method, baseline, options, allow_cost), written
