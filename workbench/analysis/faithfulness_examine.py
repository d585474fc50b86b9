"""All the doubt about a few texts in one call: measures by method, agreement, randomisation, beside random."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from workbench.analysis.faithfulness import (
    MEASURES,
    Sketch,
    judge,
    measured,
    plausibility,
    rank_agreement,
    sensitivity,
)
from workbench.analysis.saliency import (
    METHODS,
    Attribution,
    AttributionWarning,
    EmbeddingModel,
    SaliencyOptions,
    attribute_targets,
)
from workbench.analysis.saliency.attribution_target import AttributionTarget
from workbench.analysis.saliency.baselines import Baseline, baseline_vectors
from workbench.analysis.saliency.embedding_model import differentiable
from workbench.analysis.saliency.targets import TargetName, TargetRequest, ask
from workbench.drawn import Drawing
from workbench.errors import NumericsError
from workbench.models import LoadedModel
from workbench.models.dispatched import in_memory
from workbench.models.wrapping import as_model
from workbench.shapes import Array
from workbench.statistics import Statistic
from workbench.trace import Text
from workbench.trace.parts import parts_of

__all__ = [
    "CHEAP_METHODS",
    "Examination",
    "Judged",
    "cascade",
    "examine",
    "judge_all",
    "shuffled",
    "shuffling",
    "with_floor",
]

FLOOR = "random"


_STEPS_FOR_RANKS = 64  # of integrated gradients through shuffled weights


CHEAP_METHODS = (
    "saliency",
    "input_x_gradient",
    "integrated_gradients",
    "occlusion",
    "attention",
    "attention_rollout",
    "attention_gradient",
    FLOOR,
)


@dataclass(frozen=True)
class Judged:
    """One text: its attributions by method, and each method's measures (NaN where there is none)."""

    attributions: dict[str, Attribution]
    measures: dict[str, dict[str, float]]
    agreement: Array  # (method, method)


@dataclass(frozen=True)
class Examination:
    """What one text's scores are worth. Statistics label their axes "method" with the methods' names.

    ``measures`` (method, measure) are explained in :data:`MEASURES`; ``agreement`` is Spearman's rho between
    methods; ``randomisation`` (method, part) the rho with the scores of a model whose weights are shuffled
    from the output down to that part.
    """

    attributions: tuple[Attribution, ...]
    measures: Statistic
    agreement: Statistic
    randomisation: Statistic

    def to_frame(self) -> pd.DataFrame:
        """One row a method, one column a measure; the last method is the random floor."""
        labels = self.measures.labels
        return pd.DataFrame(self.measures.values, list(labels["method"]), list(labels["measure"]))

    def figure(self, **options: Any) -> Drawing:
        """The measures drawn, as :meth:`workbench.Statistic.figure` does."""
        return self.measures.figure(**options)

    def __repr__(self) -> str:
        shown = self.to_frame()["comprehensiveness"].items()
        return "<Examination: comprehensiveness " + ", ".join(f"{m} {v:+.3f}" for m, v in shown) + ">"


def with_floor(methods: Sequence[str]) -> tuple[str, ...]:
    """The methods, checked, each once, and the random floor last."""
    for name in methods:
        METHODS.get(name)
    return (*(name for name in dict.fromkeys(methods) if name != FLOOR), FLOOR)


def examine(
    model: LoadedModel | str,
    text: Text,
    methods: Sequence[str] = CHEAP_METHODS,
    *,
    target: TargetName = None,
    contrast: TargetName = None,
    position: int | None = None,
    baseline: Baseline = None,
    options: SaliencyOptions | None = None,
    rationale: Sequence[int] | None = None,
    allow_cost: bool = False,
    progress: bool = False,
) -> Examination:
    """Scores of ``text`` by several methods, and every measure of their faithfulness.

    Arguments are those of :func:`workbench.attribute`; ``rationale`` marks with 1 the words that people find
    decisive. The random floor is always among the methods.

    Example:
        ```python
        import workbench

        found = workbench.analysis.examine(
            "novels-decoder", "The boys at home", ("occlusion", "input_x_gradient"), target=" were", contrast=" was"
        )
        print(found.to_frame())
        ```
    """
    model = as_model(model)
    names, given = with_floor(methods), options or SaliencyOptions()
    question = ask(model, text, TargetRequest(target, contrast, position))
    judged = judge_all(
        model, [question], names, baseline, given, [rationale], randomise=False, allow_cost=allow_cost
    )[0]
    stages = _cascaded(model, question, judged, names, baseline, given, progress)
    for name in names:
        judged.measures[name]["randomised"] = stages[name][-1]
    measures = [m for m in MEASURES if any(m in judged.measures[name] for name in names)]
    return Examination(
        tuple(judged.attributions[name] for name in names),
        _statistic(
            "saliency measures",
            [[judged.measures[n].get(m, np.nan) for m in measures] for n in names],
            names,
            measures,
        ),
        _statistic("agreement of methods", judged.agreement, names, names, "other"),
        _statistic(
            "scores under randomised weights",
            [stages[n] for n in names],
            names,
            list(cascade(model)),
            "randomised down to",
        ),
    )


def _statistic(
    name: str,
    values: Sequence[Sequence[float]] | Array,
    methods: Sequence[str],
    columns: Sequence[str],
    axis: str = "measure",
) -> Statistic:
    return Statistic(
        name=name,
        unit="see measure" if axis == "measure" else "Spearman's rho",
        values=np.asarray(values, dtype=np.float64),
        axes=("method", axis),
        labels={"method": tuple(methods), axis: tuple(columns)},
        note="one text",
    )


def judge_all(
    model: LoadedModel,
    questions: Sequence[AttributionTarget],
    methods: Sequence[str],
    baseline: Baseline,
    options: SaliencyOptions,
    rationales: Sequence[Sequence[int] | None],
    *,
    randomise: bool = True,
    allow_cost: bool = False,
) -> list[Judged]:
    """Scores and measures of several questions, which share forward passes where they can."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AttributionWarning)  # the error stands in each attribution
        found = {m: attribute_targets(model, questions, m, baseline, options, allow_cost) for m in methods}
        other = replace(options, seed=options.seed + 1)
        again = {
            m: attribute_targets(model, questions, m, baseline, other, allow_cost)
            if METHODS.get(m).seeded
            else found[m]
            for m in methods
        }
        forgot = _forgotten(model, questions, methods, baseline, options) if randomise else {}
        vectors = baseline_vectors(model, baseline)
        results = []
        for i, question in enumerate(questions):
            own = {m: found[m][i] for m in methods}
            with differentiable(model):
                measures = _measures(model, question, own, vectors, options)
            agreement = np.array([[rank_agreement(own[a], own[b]) for b in methods] for a in methods])
            for row, m in enumerate(methods):
                measures[m]["seed_agreement"] = rank_agreement(own[m], again[m][i])
                others = [c for c, name in enumerate(methods) if c != row and name != FLOOR]
                measures[m]["method_agreement"] = float(np.mean(agreement[row, others])) if others else np.nan
                if randomise:
                    measures[m]["randomised"] = (
                        rank_agreement(own[m], forgot[m][i]) if m in forgot else np.nan
                    )
                marked = rationales[i]
                if marked is not None:
                    measures[m] |= plausibility(own[m], marked)
            results.append(Judged(own, measures, agreement))
    return results


def _measures(
    model: LoadedModel,
    question: AttributionTarget,
    own: dict[str, Attribution],
    vectors: Tensor,
    options: SaliencyOptions,
) -> dict[str, dict[str, float]]:
    embedded = EmbeddingModel(model, [question], vectors)
    probable = embedded.asking([measured(question, model)])
    sketch = Sketch.of(embedded, options)
    judged = judge(probable, sketch, list(own.values()), options)
    found = dict(zip(own, judged, strict=True))
    for name, attribution in own.items():
        found[name]["sensitivity"] = sensitivity(embedded, attribution, options)
    return found


def _forgotten(
    model: LoadedModel,
    questions: Sequence[AttributionTarget],
    methods: Sequence[str],
    baseline: Baseline,
    options: SaliencyOptions,
) -> dict[str, list[Attribution]]:
    """Scores of the model with all weights shuffled; a method that then gives no number is left out."""
    found = {}
    few = _for_ranks(options)
    with shuffled(model, seed=options.seed):
        for method in methods:
            try:
                found[method] = attribute_targets(model, questions, method, baseline, few, allow_cost=True)
            except NumericsError:
                continue
    return found


def _cascaded(
    model: LoadedModel,
    question: AttributionTarget,
    judged: Judged,
    methods: Sequence[str],
    baseline: Baseline,
    options: SaliencyOptions,
    progress: bool,
) -> dict[str, list[float]]:
    """Agreement with the original scores when parts are shuffled from the output down, one more at a time."""
    stages: dict[str, list[float]] = {m: [] for m in methods}
    few = _for_ranks(options)
    with warnings.catch_warnings(), shuffling(model, options.seed) as parts:
        warnings.simplefilter("ignore", AttributionWarning)
        for _ in tqdm(parts, total=len(cascade(model)), unit="part", leave=False, disable=not progress):
            for method in methods:
                try:
                    now = attribute_targets(model, [question], method, baseline, few, allow_cost=True)[0]
                    stages[method].append(rank_agreement(judged.attributions[method], now))
                except NumericsError:
                    stages[method].append(np.nan)
    return stages


def _for_ranks(options: SaliencyOptions) -> SaliencyOptions:
    """Of a model without sense the ranks of the scores are wanted, not that they add up, which can take very long."""
    return replace(options, most_steps=min(options.most_steps, _STEPS_FOR_RANKS))


def cascade(model: LoadedModel) -> dict[str, tuple[str, ...]]:
    """Names of weights by part, from the output to the embeddings: head, layers from the last, embeddings."""
    parts = parts_of(model.model)
    blocks = [
        (f"{stack} layer {i}", name) for stack, names in parts.blocks.items() for i, name in enumerate(names)
    ]
    found: dict[str, list[str]] = {
        "head": [],
        **{label: [] for label, _ in reversed(blocks)},
        "embeddings": [],
    }
    embedding = model.model.get_input_embeddings().weight
    for name, weight in model.model.named_parameters():
        label = next((label for label, block in blocks if name.startswith(f"{block}.")), None)
        if label is None:
            inside = weight is embedding or "embed" in name
            label = "embeddings" if inside else "head"
        found[label].append(name)
    return {label: tuple(names) for label, names in found.items() if names}


@contextmanager
def shuffling(model: LoadedModel, seed: int = 0) -> Iterator[Iterator[str]]:
    """Gives an iterator that shuffles one part of :func:`cascade` more at each step, and names it.

    At the end of the block all weights are put back. ``model.lock`` is held in it.
    """
    in_memory(model.model, "shuffling weights")
    kept: dict[nn.Parameter, torch.Tensor] = {}
    with model.lock:
        try:
            yield _shuffled_parts(model, torch.Generator().manual_seed(seed), kept)
        finally:
            with torch.no_grad():
                for weight, values in kept.items():
                    weight.copy_(values)


def _shuffled_parts(
    model: LoadedModel, generator: torch.Generator, kept: dict[nn.Parameter, torch.Tensor]
) -> Iterator[str]:
    weights = dict(model.model.named_parameters())
    for part, names in cascade(model).items():
        for name in names:
            kept[weights[name]] = weights[name].detach().clone()
            _shuffle(weights[name], generator)
        yield part


@contextmanager
def shuffled(model: LoadedModel, seed: int = 0) -> Iterator[None]:
    """All weights shuffled, and put back at the end of the block."""
    with shuffling(model, seed) as parts:
        for _ in parts:
            pass
        yield


def _shuffle(weight: nn.Parameter, generator: torch.Generator) -> None:
    order = torch.randperm(weight.numel(), generator=generator).to(weight.device)
    with torch.no_grad():
        weight.copy_(weight.flatten()[order].view_as(weight))
