"""What the target loses when a part of the text is replaced by the baseline."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain

import torch

from workbench.analysis.attention import word_groups
from workbench.analysis.saliency._methods import METHODS, OcclusionUnit, Raw, SaliencyMethod, SaliencyOptions
from workbench.analysis.saliency.attribution_target import AttributionTarget
from workbench.analysis.saliency.embedding_model import EmbeddingModel

__all__ = ["groups_of", "values_without", "windows_of"]

_SENTENCE_END = re.compile(r"[.!?…。！？][\"'”’)\]]*$")


def groups_of(question: AttributionTarget, unit: OcclusionUnit) -> list[list[int]]:
    """The attributed tokens of each token, word or sentence, in order; together they are all of them."""
    attributed = question.attributed
    if unit is OcclusionUnit.TOKEN:
        return [[i] for i, kept in enumerate(attributed) if kept]
    words = word_groups(question.encoded.alignment, special=False)
    members = [[i for i in range(words.tokens) if row[i] and attributed[i]] for row in words.sum_matrix]
    labelled = [(label, tokens) for label, tokens in zip(words.labels, members, strict=True) if tokens]
    if unit is not OcclusionUnit.SENTENCE:
        return [tokens for _, tokens in labelled]
    sentences: list[list[int]] = [[]]
    for label, tokens in labelled:
        sentences[-1].extend(tokens)
        if _SENTENCE_END.search(label):
            sentences.append([])
    return [tokens for tokens in sentences if tokens]


def windows_of(question: AttributionTarget, options: SaliencyOptions) -> list[list[int]]:
    """What is taken out together: each unit once, or every window of ``options.span`` words."""
    groups = groups_of(question, options.unit)
    if options.unit is not OcclusionUnit.SPAN:
        return groups
    size = min(options.span, len(groups))
    return [list(chain(*groups[i : i + size])) for i in range(len(groups) - size + 1)]


def _occlusion(embedded: EmbeddingModel, options: SaliencyOptions) -> Raw:
    """Each window's loss is shared by its tokens; a token in several windows gets the mean of its shares."""
    windows = [windows_of(question, options) for question in embedded.questions]
    jobs = [(row, window) for row, own in enumerate(windows) for window in [[], *own]]
    losses = values_without(embedded, jobs, options)
    scores = torch.zeros_like(embedded.embeddings[..., 0])
    counts = torch.zeros_like(scores)
    whole: dict[int, float] = {}
    for (row, window), value in zip(jobs, losses, strict=True):
        if not window:
            whole[row] = value
            continue
        share = (whole[row] - value) / (len(window) if options.unit is not OcclusionUnit.TOKEN else 1)
        scores[row, window] += share
        counts[row, window] += 1
    return Raw(scores / counts.clamp(min=1), tuple(len(own) for own in windows))


def values_without(
    embedded: EmbeddingModel, jobs: Sequence[tuple[int, list[int]]], options: SaliencyOptions
) -> list[float]:
    """The target's value with some tokens of a question replaced by the baseline."""
    values = [0.0] * len(jobs)
    for chosen in embedded.chunks([row for row, _ in jobs], options.batch_tokens):
        rows = [jobs[i][0] for i in chosen]
        width = max(embedded.lengths[row] for row in rows)
        embeddings = embedded.embeddings[rows, :width]
        gone = torch.zeros(embeddings.shape[:2], dtype=torch.bool, device=embeddings.device)
        for place, i in enumerate(chosen):
            gone[place, jobs[i][1]] = True
        changed = torch.where(gone[..., None], embedded.baseline[rows, :width], embeddings)
        for i, value in zip(chosen, embedded.values(changed, torch.tensor(rows)).tolist(), strict=True):
            values[i] = value
    return values


METHODS.register(
    "occlusion",
    SaliencyMethod(
        name="occlusion",
        compute=_occlusion,
        convention="what the target loses without the token: positive speaks for the target",
        source="Zeiler & Fergus 2014, section 4.2; Li et al. 2016, section 3",
        passes=lambda tokens, options: tokens + 1,
        uses_baseline=True,
        answers_only=True,
    ),
)
