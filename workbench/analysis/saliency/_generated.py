"""What each token of a generated text rests on: a row of scores for each, given the tokens before it."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from workbench.analysis.generation import Generation, generate_steps
from workbench.analysis.saliency._attribute import attribute_targets
from workbench.analysis.saliency._methods import SaliencyOptions
from workbench.analysis.saliency._record import Attribution
from workbench.analysis.saliency.attribution_target import AttributionTarget, TargetInput, TargetSum
from workbench.analysis.saliency.baselines import Baseline
from workbench.analysis.saliency.targets import TargetRequest, ask, ask_generated
from workbench.errors import TaskError
from workbench.models import Kind, LoadedModel
from workbench.trace import Text
from workbench.trace.decoder import as_read
from workbench.trace.encoding import Encoded, inputs_of
from workbench.trace.structure import call_model

__all__ = ["attribute_generated"]

GENERATED = 12  # tokens of a decoder, where no target is given


def attribute_generated(
    model: LoadedModel,
    text: Text,
    method: str = "integrated_gradients",
    *,
    target: str | None = None,
    generation: Generation | None = None,
    baseline: Baseline = None,
    options: SaliencyOptions | None = None,
    allow_cost: bool = False,
) -> tuple[list[Attribution], tuple[str, ...]]:
    """Scores for each token of ``target`` (by default what is generated), and those tokens.

    Scored are the text's tokens and, of a decoder, also the tokens of the target before the one that is attributed: its
    ``tokens`` are longer by one from token to token. An encoder-decoder's source alone is scored, given the tokens
    before. Each has the ``entropy`` of the distribution that it is predicted from. What is generated is the text of
    ``generation``, or else greedy: of a decoder, 12 tokens or fewer. Generated tokens as sources: Sarti et al. 2023,
    "Inseq: An Interpretability Toolkit for Sequence Generation Models".
    :func:`workbench.figures.saliency.generation_map` draws them. Raises :class:`~workbench.errors.ModelError` for a
    model that does not generate.

    Example:
        ```python
        import workbench
        from workbench.analysis.saliency import attribute_generated
        from workbench.figures.saliency import generation_map

        model = workbench.load("novels-decoder")
        found, tokens = attribute_generated(model, "The boys at home", "occlusion", target=" were very happy")
        print(generation_map(found, tokens).to_frame())
        ```
    """
    model.require(Kind.CAUSAL, Kind.SEQ2SEQ, verb="attributing each generated token")
    if target is None and generation is None and model.kind is Kind.CAUSAL:
        if not isinstance(text, str):
            raise TaskError("a decoder generates after one text; give a string, or a target")
        generation = generate_steps(model, text, GENERATED)
    if generation is not None:
        whole = ask_generated(model, text, tuple(step.token_id for step in generation.steps))
    else:
        whole = ask(model, text, TargetRequest(target))
    terms = whole.parts[0].terms
    generated = tuple(model.tokenizer.convert_ids_to_tokens([term.index for term in terms]))
    before = _read_on if model.kind is Kind.CAUSAL else _as_given
    questions = [
        replace(before(whole, generated[:i]), parts=(TargetSum((term,)),), label=f"log p({token!r})")
        for i, (term, token) in enumerate(zip(terms, generated, strict=True))
    ]
    found = attribute_targets(model, questions, method, baseline, options, allow_cost)
    entropies = _entropies(model, whole)
    return [replace(one, entropy=e) for one, e in zip(found, entropies, strict=True)], generated


def _as_given(whole: AttributionTarget, before: tuple[str, ...]) -> AttributionTarget:
    """The tokens ``before`` are read by the decoder, and have no scores."""
    return replace(whole, note="given the tokens before it")


def _read_on(whole: AttributionTarget, before: tuple[str, ...]) -> AttributionTarget:
    """The text with the tokens ``before`` behind it, which are attributed like its own."""
    text, size = whole.encoded.alignment, len(before)
    read = replace(
        text,
        tokens=(*text.tokens, *before),
        ids=(*text.ids, *(term.index for term in whole.parts[0].terms[:size])),
        offsets=(*text.offsets, *((0, 0),) * size),
        word_ids=(*text.word_ids, *(None,) * size),
    )
    return replace(
        whole,
        encoded=replace(
            whole.encoded, alignment=read, segment_ids=(*whole.encoded.segment_ids, *(0,) * size)
        ),
        reads=(TargetInput(),),
        attributed=(*whole.attributed, *(True,) * size),
        note="as are the tokens before it",
    )


def _entropies(model: LoadedModel, whole: AttributionTarget) -> list[float]:
    """Entropy in bits of the distribution from which each token of the target is predicted."""
    read, inputs = whole.reads[0], inputs_of(model, [whole.encoded])
    if read.decoder is not None:
        inputs |= {"decoder_input_ids": torch.tensor([read.decoder], device=model.device)}
    else:
        ids = (*whole.encoded.alignment.ids, *read.suffix)
        inputs = inputs_of(model, [Encoded(as_read(model, ids), (0,) * len(ids))])
    places = [term.position for term in whole.parts[0].terms]
    with model.lock, torch.inference_mode():
        logs = call_model(model.model, **inputs).logits[0, places].float().log_softmax(-1)
    found: list[float] = (-(logs.exp() * logs).nan_to_num(0.0).sum(-1) / math.log(2)).tolist()
    return found
