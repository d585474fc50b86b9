"""How faithful saliency scores of one text are, beside those of the random floor.

Tokens are "removed" by putting the baseline's embedding in their place. Comprehensiveness and sufficiency are
of the target's probability, so that texts can be averaged, or of the output itself where that is a number; correlation
with leave-one-out and infidelity are of the very output that is attributed.

Where the measures differ from their sources: DeYoung et al. 2020 take tokens out of the text, at 1, 5, 10, 20 and 50 %;
Jain & Wallace 2019 measure what a removal costs by the total variation distance of all outputs; Yeh et al. 2019 leave
infidelity and sensitivity on the scores' own scale, and take the largest change within a ball; Adebayo et al. 2018 draw
new weights, where here each weight's entries are shuffled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from scipy import stats

from workbench.analysis.saliency import METHODS, Attribution, EmbeddingModel, Output, SaliencyOptions
from workbench.analysis.saliency.attribution_target import AttributionTarget
from workbench.analysis.saliency.occlusion import values_without
from workbench.models import LoadedModel
from workbench.models.problem import ProblemType, problem_of
from workbench.shapes import Array

__all__ = [
    "MEASURES",
    "FaithfulnessMeasure",
    "Sketch",
    "judge",
    "plausibility",
    "rank_agreement",
    "sensitivity",
]

SHARES = tuple(round(0.1 * k, 1) for k in range(1, 10))  # of tokens removed or kept: 10 % to 90 %
SUBSETS = 40  # random removals behind infidelity
RADIUS = 0.02  # of noise for sensitivity, as a share of the embeddings' spread


@dataclass(frozen=True)
class FaithfulnessMeasure:
    """One number about a method on a text; ``about`` says what it is, with its source."""

    name: str
    about: str
    higher_is_better: bool | None


MEASURES = {
    measure.name: measure
    for measure in (
        FaithfulnessMeasure(
            "comprehensiveness",
            "loss without the highest-scored 10 %, 20 %, ..., 90 % of tokens, mean (after DeYoung et al. 2020)",
            True,
        ),
        FaithfulnessMeasure(
            "sufficiency",
            "loss with only the highest-scored 10 %, 20 %, ..., 90 % of tokens, mean (after DeYoung et al. 2020)",
            False,
        ),
        FaithfulnessMeasure(
            "loo_correlation",
            "Kendall's tau of the scores with what each token's removal costs (after Jain & Wallace 2019)",
            True,
        ),
        FaithfulnessMeasure(
            "infidelity",
            "share of the squared change under random removals that the removed tokens' scores, scaled as fits "
            "best, do not predict: 0 best, 1 nothing (after Yeh et al. 2019, definition 2.1)",
            False,
        ),
        FaithfulnessMeasure(
            "sensitivity",
            "largest relative change of the scores under slight noise (after Yeh et al. 2019, definition 2.3)",
            False,
        ),
        FaithfulnessMeasure(
            "seed_agreement", "Spearman's rho between two seeds; 1 for methods that do not draw", True
        ),
        FaithfulnessMeasure(
            "method_agreement", "mean Spearman's rho with the other methods, without the random floor", None
        ),
        FaithfulnessMeasure(
            "randomised",
            "Spearman's rho with the scores of the model with all weights shuffled; near 1: the method does not "
            "look at the model (after Adebayo et al. 2018)",
            False,
        ),
        FaithfulnessMeasure(
            "plausibility_f1", "F1 with the words that people marked, as many as they marked", True
        ),
        FaithfulnessMeasure(
            "plausibility_iou", "intersection over union with the words that people marked", True
        ),
        FaithfulnessMeasure(
            "plausibility_auprc", "area under precision and recall of the words people marked", True
        ),
    )
}


@dataclass(frozen=True)
class Sketch:
    """What a text shows about itself, the same for all methods: removals, and what each costs."""

    alone: Float[Array, " token"]  # loss without each attributed token
    subsets: tuple[tuple[int, ...], ...]
    losses: Float[Array, " subset"]  # loss without each random subset

    @classmethod
    def of(cls, embedded: EmbeddingModel, options: SaliencyOptions) -> Sketch:
        """Draw it for an embedding model of one target."""
        tokens = np.flatnonzero(embedded.questions[0].attributed)
        draw = np.random.default_rng(options.seed)
        subsets = tuple(
            tuple(sorted(draw.choice(tokens, size=draw.integers(1, len(tokens) + 1), replace=False).tolist()))
            for _ in range(SUBSETS)
        )
        jobs = [[], *([int(token)] for token in tokens), *map(list, subsets)]
        values = np.array(values_without(embedded, [(0, job) for job in jobs], options))
        losses = values[0] - values[1:]
        return cls(losses[: len(tokens)], subsets, losses[len(tokens) :])


def measured(question: AttributionTarget, model: LoadedModel) -> AttributionTarget:
    """The same question about a probability, or of a regression about its number."""
    is_number = problem_of(model.model) is ProblemType.NUMBER
    return replace(question, output=Output.LOGIT if is_number else Output.PROBABILITY)


def judge(
    embedded: EmbeddingModel, sketch: Sketch, attributions: Sequence[Attribution], options: SaliencyOptions
) -> list[dict[str, float]]:
    """Comprehensiveness, sufficiency, correlation with leave-one-out and infidelity of each attribution.

    ``embedded`` holds one question, the one that :func:`measured` gives; ``sketch`` is of the question itself.
    """
    tokens = np.flatnonzero(embedded.questions[0].attributed)
    jobs: list[list[int]] = [[]]
    for attribution in attributions:
        order = tokens[np.argsort(-attribution.scores[tokens], kind="stable")]
        counts = [max(1, round(share * len(order))) for share in SHARES]
        jobs += [order[:count].tolist() for count in counts] + [order[count:].tolist() for count in counts]
    values = np.array(values_without(embedded, [(0, job) for job in jobs], options))
    losses = (values[0] - values[1:]).reshape(len(attributions), 2, len(SHARES)).mean(-1)
    return [
        {
            "comprehensiveness": float(losses[i, 0]),
            "sufficiency": float(losses[i, 1]),
            "loo_correlation": _tau(attribution, tokens, sketch.alone),
            "infidelity": _infidelity(attribution, sketch),
        }
        for i, attribution in enumerate(attributions)
    ]


def _tau(attribution: Attribution, tokens: Array, alone: Array) -> float:
    truth = alone if attribution.signed else np.abs(alone)
    return _defined(stats.kendalltau, attribution.scores[tokens], truth)


def _infidelity(attribution: Attribution, sketch: Sketch) -> float:
    """E[(beta s - loss)^2] / E[loss^2] with the best beta; s is the sum of the removed tokens' scores."""
    sums = np.array([attribution.scores[list(subset)].sum() for subset in sketch.subsets])
    power = float((sketch.losses**2).sum())
    if power == 0:
        return 0.0
    if not sums.any():
        return 1.0
    beta = float(sums @ sketch.losses / (sums @ sums))
    return float(((beta * sums - sketch.losses) ** 2).sum() / power)


def sensitivity(
    embedded: EmbeddingModel, attribution: Attribution, options: SaliencyOptions, draws: int = 3
) -> float:
    """Largest relative change of scores over ``draws`` noisy copies of the text, of one target."""
    method = METHODS.get(attribution.method)
    generator = torch.Generator().manual_seed(options.seed)
    spread = RADIUS * float(embedded.embeddings.std())
    norm = float(np.linalg.norm(attribution.scores)) or 1.0
    worst = 0.0
    for _ in range(draws):
        noise = torch.randn(embedded.embeddings.shape, generator=generator).to(embedded.embeddings)
        found = method.compute(embedded.moved(embedded.embeddings + spread * noise), options).scores
        scores = found[0, : len(attribution)].detach().double().cpu().numpy()
        worst = max(worst, float(np.linalg.norm(scores - attribution.scores)) / norm)
    return worst


def rank_agreement(first: Attribution, second: Attribution) -> float:
    """Spearman's rho over attributed tokens; of magnitudes, where one of the two has no sign."""
    tokens = np.flatnonzero(np.logical_and(first.attributed, second.attributed))
    one, other = first.scores[tokens], second.scores[tokens]
    if first.signed != second.signed:
        one, other = np.abs(one), np.abs(other)
    return _defined(stats.spearmanr, one, other)


def plausibility(attribution: Attribution, rationale: Sequence[int]) -> dict[str, float]:
    """How well the highest-scored words are those that people marked (1) and not others (0).

    ``rationale`` has an entry for each whitespace-separated word. As many words are taken as were marked in this text,
    where DeYoung et al. 2020, section 5, take the data set's mean; F1 and intersection over union are of words, where
    theirs also counts spans that overlap by half. NaN where none or all are marked.
    """
    from sklearn.metrics import average_precision_score

    from workbench.errors import DataError

    words = [w for w in attribution.alignment.word_ids if w is not None]
    count = len(attribution.alignment.words)
    if len(rationale) != count or set(rationale) - {0, 1}:
        raise DataError(f"a rationale has a 0 or 1 for each of the {count} words, got {list(rationale)[:12]}")
    scores = np.full(count, -np.inf)
    for score, word in zip(attribution.scores, attribution.alignment.word_ids, strict=True):
        if word is not None and word in words:
            scores[word] = (
                score if np.isinf(scores[word]) else _joined(scores[word], score, attribution.signed)
            )
    marked = np.array(rationale, dtype=bool)
    if not marked.any() or marked.all():
        return dict.fromkeys(("plausibility_f1", "plausibility_iou", "plausibility_auprc"), float("nan"))
    chosen = np.zeros(count, dtype=bool)
    chosen[np.argsort(-scores, kind="stable")[: marked.sum()]] = True
    both = float((chosen & marked).sum())
    finite = np.where(np.isinf(scores), scores[np.isfinite(scores)].min() - 1, scores)
    return {
        "plausibility_f1": both / float(marked.sum()),
        "plausibility_iou": both / float((chosen | marked).sum()),
        "plausibility_auprc": float(average_precision_score(marked, finite)),
    }


def _joined(old: float, new: float, signed: bool) -> float:
    return old + new if signed else max(old, new)


def _defined(correlation: object, one: Array, other: Array) -> float:
    """A rank correlation; 0 where one side is constant, 1 where there is a single token."""
    if len(one) < 2:
        return 1.0
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return 0.0
    assert callable(correlation)
    return float(correlation(one, other).statistic)
