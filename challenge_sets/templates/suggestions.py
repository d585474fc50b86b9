"""Words that a masked language model would put in a template's slot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from workbench.errors import ModelError
from workbench.models import Kind

if TYPE_CHECKING:
    from workbench.models import LoadedModel

__all__ = ["MARK", "Suggestion", "suggest"]

MARK = "\x00"  # stands for the slot until the number of mask tokens is known; no template text holds it


class Suggestion(NamedTuple):
    """A word or phrase for a slot, with its log-probability in nats averaged over the contexts tried."""

    text: str
    log_probability: float


class _Beam(NamedTuple):
    tokens: tuple[int, ...]
    log_probability: float


def suggest(model: LoadedModel, texts: Sequence[str], *, count: int, pieces: int) -> list[Suggestion]:
    """The ``count`` best fillers of the :data:`MARK` in ``texts``, best first.

    See :meth:`challenge_sets.templates.Template.suggest`, which makes the texts.
    """
    model.require(Kind.MASKED, verb="suggest")
    beams = [_Beam((), 0.0)]
    for done in range(pieces):
        width = count if done == pieces - 1 else 2 * count
        beams = _extended(model, texts, beams, masks=pieces - done, width=width)
    found = [Suggestion(model.tokenizer.decode(beam.tokens).strip(), beam.log_probability) for beam in beams]
    return sorted(found, key=lambda suggestion: -suggestion.log_probability)


def _extended(
    model: LoadedModel, texts: Sequence[str], beams: list[_Beam], *, masks: int, width: int
) -> list[_Beam]:
    """The best continuations of ``beams`` by one token at the first of ``masks`` mask tokens."""
    candidates: list[_Beam] = []
    for beam in beams:
        scores = _mean_log_probabilities(model, texts, beam.tokens, masks)
        best = np.argsort(-scores, kind="stable")[:width]
        candidates += [
            beam._replace(
                tokens=(*beam.tokens, int(token)),
                log_probability=beam.log_probability + float(scores[token]),
            )
            for token in best
        ]
    return sorted(candidates, key=lambda beam: -beam.log_probability)[:width]


def _mean_log_probabilities(
    model: LoadedModel, texts: Sequence[str], prefix: tuple[int, ...], masks: int
) -> Float[np.ndarray, " vocabulary"]:
    """Log-probability of each token at the first mask behind ``prefix``, averaged over texts.

    Special tokens get minus infinity.
    """
    tokenizer = model.tokenizer
    rows = [_token_ids(tokenizer, text, prefix, masks) for text in texts]
    total = np.zeros(0)
    for ids, position in rows:
        if len(ids) > model.max_length:
            raise ModelError(
                f"a context has {len(ids)} tokens; {model.name} takes {model.max_length}: shorten the template"
            )
        with model.lock, torch.inference_mode():
            logits = model.model(input_ids=torch.tensor([ids], device=model.device)).logits[0, position]
        log_probabilities = torch.log_softmax(logits.double(), dim=-1).cpu().numpy()
        total = log_probabilities if not total.size else total + log_probabilities
    mean = total / len(rows)
    mean[list(tokenizer.all_special_ids)] = -np.inf
    return mean


def _token_ids(tokenizer: Any, text: str, prefix: tuple[int, ...], masks: int) -> tuple[list[int], int]:
    """Token ids of ``text`` with ``prefix`` and masks at the mark, and the position of the first mask.

    The masks go in as text, so that the tokenizer treats what stands around them as usual; the prefix
    replaces the first of them afterwards.
    """
    marked = text.replace(MARK, tokenizer.mask_token * (len(prefix) + masks))
    ids: list[int] = tokenizer(marked)["input_ids"]
    positions = [index for index, token in enumerate(ids) if token == tokenizer.mask_token_id]
    for index, token in zip(positions, prefix, strict=False):
        ids[index] = token
    return ids, positions[len(prefix)]
