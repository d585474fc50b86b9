"""Sequences whose long beginnings are equal (few-shot prompts): what they share is read once and kept.

Axis legend: H key heads, P tokens of the prefix, d head width.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence as Sequence_
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any
from weakref import WeakKeyDictionary

import torch
from transformers import DynamicCache

from workbench.models import LoadedModel
from workbench.scoring._forks import NODES, Fork, cache_argument, forward_groves, groves, reads_trees
from workbench.scoring._forward import forward_batch
from workbench.scoring._records import Sequence

__all__ = ["Family", "Plan", "plan_families", "read_prefix", "reads_prefixes"]

# A shorter beginning is not worth a pass of its own; it also has to be half of what stands before the answer.
_LONG = 64
# Contexts that begin alike for at least this share of the shorter one (fill-in-the-blank items) share a tree.
_ALIKE = 1 / 3
_CHECK = ((1, 2, 3, 4, 5, 6), (1, 2, 3, 7, 6))
_TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-4}
_COARSE_TOLERANCE = 0.05
# Whether a model goes on from a kept prefix as it would from the text, by its module: found out by trying, once.
_VERDICTS: WeakKeyDictionary[torch.nn.Module, bool] = WeakKeyDictionary()


@dataclass(frozen=True)
class Family:
    """``prefix`` ids that all sequences at ``places`` begin with; a group of places has one context in common."""

    prefix: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]

    def fork(self, group: Sequence_[int], sequences: Sequence_[Sequence]) -> Fork:
        """What the sequences of one group read after the prefix."""
        cut = len(self.prefix)
        members = (sequences[place] for place in group)
        return Fork(tuple(replace(m, ids=m.ids[cut:], start=m.start - cut) for m in members))


@dataclass(frozen=True)
class Plan:
    """How sequences are read: ``alone``, as ``forks`` of one context, or in ``families`` after a kept prefix."""

    alone: tuple[int, ...]
    forks: tuple[tuple[int, ...], ...]
    families: tuple[Family, ...]


def plan_families(sequences: Sequence_[Sequence], *, long: int = _LONG) -> Plan:
    """Group sequences by what stands before their scored part; the plan depends on nothing but them."""
    by_context: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for place, sequence in enumerate(sequences):
        by_context[sequence.ids[: sequence.start]].append(place)
    runs: list[tuple[int, list[tuple[int, ...]]]] = []  # shared ids, contexts
    for context in sorted(by_context):
        shared, contexts = runs[-1] if runs else (0, [])
        common = min(shared, _common(contexts[-1], context), len(context) - 1) if contexts else 0
        if common >= max(long, len(context) // 2):
            runs[-1] = (common, [*contexts, context])
        else:
            runs.append((len(context) - 1, [context]))
    single = [contexts[0] for _, contexts in runs if len(contexts) == 1]
    paired = _paired(single)
    apart = [context for context in single if context not in paired and len(by_context[context]) == 1]
    alone = set(apart)
    return Plan(
        alone=tuple(sorted(by_context[context][0] for context in apart)),
        forks=tuple(tuple(by_context[context]) for context in single if context not in alone),
        families=tuple(
            Family(contexts[0][:shared], tuple(tuple(by_context[context]) for context in contexts))
            for shared, contexts in runs
            if len(contexts) > 1
        ),
    )


def _paired(contexts: Sequence_[tuple[int, ...]]) -> set[tuple[int, ...]]:
    """Of sorted contexts those that begin like the one before or after, and fit into one tree with it."""
    found: set[tuple[int, ...]] = set()
    for first, second in pairwise(contexts):
        common, shorter = _common(first, second), min(len(first), len(second))
        if common >= max(1, _ALIKE * shorter) and len(first) + len(second) - common <= NODES:
            found |= {first, second}
    return found


def _common(first: tuple[int, ...], second: tuple[int, ...]) -> int:
    """Number of leading ids that are equal."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if first[:middle] == second[:middle] else (low, middle - 1)
    return low


def read_prefix(model: LoadedModel, prefix: Sequence_[int]) -> Any:
    """Keys and values of ``prefix``, (1, H, P, d) a layer, in transformers' cache."""
    ids = torch.tensor([list(prefix)], device=model.device)
    # The body alone: nobody asks what follows the prefix, so nothing is projected to the vocabulary.
    body, kept = model.model.base_model, DynamicCache()
    with model.lock, torch.inference_mode():
        body(input_ids=ids, use_cache=True, **{cache_argument(body): kept})
    return kept


def reads_prefixes(model: LoadedModel) -> bool:
    """Whether going on from a kept prefix gives what the whole text gives; tried once per model."""
    if model.model not in _VERDICTS:
        _VERDICTS[model.model] = reads_trees(model) and _try(model)
    return _VERDICTS[model.model]


def _try(model: LoadedModel) -> bool:
    sequences = [Sequence(ids, 3) for ids in _CHECK]
    family = Family(_CHECK[0][:2], ((0, 1),))
    try:
        kept = read_prefix(model, family.prefix)
        ((after,),) = forward_groves(model, groves([family.fork((0, 1), sequences)]), kept)
    except (TypeError, ValueError, RuntimeError, IndexError, AttributeError):
        return False
    tolerance = _TOLERANCE.get(model.dtype, _COARSE_TOLERANCE)
    return all(
        abs(a - b) <= tolerance * max(1.0, abs(b))
        for got, expected in zip(after, forward_batch(model, sequences), strict=True)
        for a, b in zip(got.token_log_probabilities, expected.token_log_probabilities, strict=True)
    )
