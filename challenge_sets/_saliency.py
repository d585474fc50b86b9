"""Which tokens of a pair spoke for which member: the saliency part of an explanation."""

from __future__ import annotations

from dataclasses import dataclass

from challenge_sets._differences import common_places, leading
from workbench.analysis.saliency import Attribution, attribute
from workbench.errors import TaskError
from workbench.models import Kind, LoadedModel
from workbench.models.batching import encode_row, head_outputs
from workbench.text import align

__all__ = ["SaliencyDifference", "saliency_difference"]


@dataclass(frozen=True)
class SaliencyDifference:
    """``scores``: the tokens that both members have, as text, and how much each speaks for ``question``.

    ``question`` says which number was attributed. Without scores, ``reason`` says why there are none.
    """

    method: str
    question: str = ""
    scores: tuple[tuple[str, float], ...] = ()
    reason: str = ""

    @property
    def strongest(self) -> list[tuple[str, float]]:
        """The tokens of largest magnitude first."""
        return sorted(self.scores, key=lambda entry: -abs(entry[1]))


def saliency_difference(
    model: LoadedModel, good: str, bad: str, method: str, front: str = ""
) -> SaliencyDifference:
    """The difference of the two members' saliency; a causal model reads ``front`` (its BOS) before them.

    Language models: of the good member's rest from the first difference on against the bad member's (causal),
    or of the word that differs (masked), attributed to the tokens that both have; for gradients this is the
    difference of two attributions. Classifiers: the class given to ``good``, attributed to each text's
    tokens; bad subtracted from good.
    """
    try:
        if model.kind is Kind.CAUSAL:
            return _causal(model, front, (good, bad), method)
        if model.kind is Kind.MASKED:
            return _masked(model, good, bad, method)
        if model.kind is Kind.CLASSIFIER:
            return _classifier(model, good, bad, method)
    except TaskError as error:
        return SaliencyDifference(method, reason=str(error))
    return SaliencyDifference(method, reason=f"no saliency of pairs for a {model.kind} model")


def _causal(model: LoadedModel, front: str, pair: tuple[str, str], method: str) -> SaliencyDifference:
    good, bad = (front + text for text in pair)
    first, second = (align(text, model.tokenizer) for text in (good, bad))
    shared = good[: first.offsets[leading(first.ids, second.ids)][0]].rstrip()
    if len(shared) <= len(front):
        return SaliencyDifference(method, reason="the members share no word at the start")
    found = attribute(model, shared, method, target=good[len(shared) :], contrast=bad[len(shared) :])
    return SaliencyDifference(method, found.target, _scores(found, after=len(front)))


def _masked(model: LoadedModel, good: str, bad: str, method: str) -> SaliencyDifference:
    words, others = good.split(), bad.split()
    differing = [n for n, pair in enumerate(zip(words, others, strict=False)) if pair[0] != pair[1]]
    if len(words) != len(others) or len(differing) != 1:
        return SaliencyDifference(method, reason="the members differ in more than one word")
    place = differing[0]
    text = " ".join([*words[:place], model.tokenizer.mask_token, *words[place + 1 :]])
    found = attribute(model, text, method, target=words[place], contrast=others[place])
    return SaliencyDifference(method, found.target, _scores(found))


def _scores(found: Attribution, after: int = 0) -> tuple[tuple[str, float], ...]:
    """Text and score of the tokens that are explained and stand behind the first ``after`` characters."""
    text = found.alignment.text
    return tuple(
        (text[start:end].strip(), float(score))
        for (start, end), score, explained in zip(
            found.alignment.offsets, found.scores, found.explained, strict=True
        )
        if explained and start >= after
    )


def _classifier(model: LoadedModel, good: str, bad: str, method: str) -> SaliencyDifference:
    (output,) = head_outputs(model, [encode_row(model, good)])
    chosen = int(output["logits"].argmax())
    first, second = (attribute(model, text, method, target=chosen) for text in (good, bad))
    places = common_places(first.alignment.ids, second.alignment.ids)
    scores = tuple(
        (str(first.tokens[a]), float(first.scores[a] - second.scores[b]))
        for a, b in places
        if first.explained[a] and second.explained[b]
    )
    return SaliencyDifference(method, f"{first.target} of the first text minus that of the second", scores)
