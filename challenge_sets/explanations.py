"""From a failure to what happened inside: where attention differs, and the layer at which predictions part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from jaxtyping import Float

from challenge_sets.pairs import common_places, first_difference
from workbench.analysis.lens import continuation_by_layer
from workbench.analysis.saliency import Attribution, attribute
from workbench.errors import DataError, TaskError
from workbench.models import Kind, LoadedModel
from workbench.models.batching import encode_row, head_outputs
from workbench.runs import Run
from workbench.shapes import Array
from workbench.text import PromptFormat, align
from workbench.trace import trace

__all__ = ["Explanation", "FailingCase", "SaliencyDifference", "explain", "explain_failures"]

_TOP_HEADS = 5
_TOP_TOKENS = 5


class _Case(Protocol):
    """A pair of texts: a :class:`~challenge_sets.pairs.MinimalPair` or anything with these fields."""

    @property
    def id(self) -> str:
        """Its name."""

    @property
    def good(self) -> str:
        """The text that should be more probable."""

    @property
    def bad(self) -> str:
        """The other one."""


class FailingCase(NamedTuple):
    """A failing row of a run."""

    id: str
    good: str
    bad: str


@dataclass(frozen=True)
class SaliencyDifference:
    """``scores``: the tokens that both members have, as text, and how much each supports ``question``.

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


@dataclass(frozen=True, eq=False)
class Explanation:
    """What the model did with the two members of a pair.

    ``attention_difference`` (layer, head): how differently the tokens that both members have attend to one
    another, half the absolute difference summed over keys and averaged over queries, 0 to 1. ``margins``
    (layer): log-probability (nats) of the good member's tokens, from the first difference on, minus that of
    the bad member's, read off each layer by the logit lens (nostalgebraist 2020); layer 0 is the embeddings.
    ``parting_layer`` is the first layer from which on the margin keeps the sign that it has at the end.
    Margins are empty, and the layer None, for models that are not causal. ``saliency`` says which of the tokens
    that both have support the good member (positive) and which do not.
    """

    id: str
    good: str
    bad: str
    attention_difference: Float[Array, "layer head"]
    margins: tuple[float, ...]
    parting_layer: int | None
    saliency: SaliencyDifference
    texts: tuple[str, str] = field(repr=False)  # as given to trace()

    @property
    def top_heads(self) -> list[tuple[int, int, float]]:
        """Layer, head and difference of the heads that differ most."""
        order = np.argsort(-self.attention_difference, axis=None, kind="stable")[:_TOP_HEADS]
        heads = self.attention_difference.shape[1]
        return [(int(i) // heads, int(i) % heads, float(self.attention_difference.flat[i])) for i in order]

    @property
    def summary(self) -> str:
        """Two to four lines for a terminal."""
        heads = ", ".join(
            f"layer {layer} head {head} ({value:.2f})" for layer, head, value in self.top_heads[:3]
        )
        lines = [
            f"{self.id}: {self.good!r:.90} against {self.bad!r:.90}",
            f"  attention differs most in {heads}",
        ]
        if self.parting_layer is not None:
            lines.append(
                f"  predictions part at layer {self.parting_layer} of {len(self.margins) - 1}: margin "
                f"{self.margins[self.parting_layer]:.2f} there, {self.margins[-1]:.2f} nats at the end"
            )
        words = ", ".join(f"{word!r} {score:+.2f}" for word, score in self.saliency.strongest[:_TOP_TOKENS])
        reason = f"tokens for (+) and against (-) the first: {words}" if words else self.saliency.reason
        return "\n".join([*lines, f"  {self.saliency.method}: {reason}"])

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionary for JSON."""
        return {
            "id": self.id,
            "good": self.good,
            "bad": self.bad,
            "top_heads": [
                {"layer": layer, "head": head, "difference": value} for layer, head, value in self.top_heads
            ],
            "margins": list(self.margins),
            "parting_layer": self.parting_layer,
            "saliency": asdict(self.saliency),
            "summary": self.summary,
        }


def explain(case: _Case, model: LoadedModel, *, method: str = "input_x_gradient") -> Explanation:
    """Trace both members of ``case`` and compare them.

    ``method`` is the saliency method (see :func:`workbench.attribute`); the default takes one backward pass.
    Raises :class:`~workbench.errors.DataError` if the members are equal.
    """
    if case.good == case.bad:
        raise DataError(
            f"case {case.id}: the members are equal, so there is nothing to explain: {case.good!r:.60}"
        )
    if model.prompt != PromptFormat():
        raise TaskError(f"explanations read whole texts as they stand, not as {model.prompt}")
    front = _front(model)
    texts = (front + case.good, front + case.bad)
    traced = trace(model, texts, record={"attention"}, batch_size=2)
    ids = [
        model.tokenizer(text, verbose=False).input_ids[: len(t.tokens)]
        for text, t in zip(texts, traced, strict=True)
    ]
    difference = _attention_difference([t.attention for t in traced], ids)
    margins: tuple[float, ...] = ()
    if model.kind is Kind.CAUSAL:
        start = max(first_difference(*ids), 1)  # nothing predicts the first token
        good, bad = (continuation_by_layer(model, of_text, start).sum(1).tolist() for of_text in ids)
        margins = tuple(a - b for a, b in zip(good, bad, strict=True))
    saliency = saliency_difference(model, case.good, case.bad, method, front)
    return Explanation(case.id, case.good, case.bad, difference, margins, _parting(margins), saliency, texts)


def explain_failures(run: Run, model: LoadedModel, count: int) -> list[Explanation]:
    """The ``count`` worst failures of a stored check, explained; rows without two texts are passed over."""
    rows = run.examples()
    if not {"good", "bad", "correct", "margin"} <= set(rows.columns):
        return []
    failing = rows[rows["correct"].eq(False)].sort_values("margin", kind="stable")
    cases = [FailingCase(str(row.id), str(row.good), str(row.bad)) for row in failing.itertuples()]
    return [explain(case, model) for case in [c for c in cases if c.good != c.bad][:count]]


def _front(model: LoadedModel) -> str:
    """BOS as text, for causal tokenizers that do not write it themselves: so the first token is predicted too."""
    bos = model.tokenizer.bos_token
    if model.kind is not Kind.CAUSAL or bos is None:
        return ""
    return "" if model.tokenizer("a").input_ids[:1] == [model.tokenizer.bos_token_id] else str(bos)


def _attention_difference(
    attentions: Sequence[Float[Array, "layer head query key"]], ids: Sequence[Sequence[int]]
) -> Float[Array, "layer head"]:
    """Half the absolute difference over keys, averaged over queries, on the tokens that both texts have."""
    places = common_places(*ids)
    if not places:
        return np.zeros(attentions[0].shape[:2], dtype=np.float32)
    first, second = (
        attention[:, :, np.asarray(where)[:, None], np.asarray(where)[None, :]]
        for attention, where in zip(attentions, zip(*places, strict=True), strict=True)
    )
    difference: Float[Array, "layer head"] = np.abs(first - second).sum(-1).mean(-1) / 2
    return difference


def _parting(margins: Sequence[float]) -> int | None:
    """The first layer from which on the sign is that of the last."""
    if not margins:
        return None
    layer = len(margins) - 1
    while layer > 0 and (margins[layer - 1] > 0) == (margins[-1] > 0):
        layer -= 1
    return layer


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
    shared = good[: first.offsets[first_difference(first.ids, second.ids)][0]].rstrip()
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
            found.alignment.offsets, found.scores, found.attributed, strict=True
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
        if first.attributed[a] and second.attributed[b]
    )
    return SaliencyDifference(method, f"{first.target} of the first text minus that of the second", scores)
