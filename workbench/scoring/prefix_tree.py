"""Sequences that start alike are read as trees: what they share is read once.

Two sizes of sharing. A *prefix group* holds sequences of one context (the choices of a question, the two sentences
of a pair) and is read within one batch row, each token attending to its ancestors. A *long prefix* (few-shot
examples) is read by a pass of its own, and the groups that follow it go on from its keys and values.

Axis legend: B trees, T nodes of a tree (padded), P tokens of a long prefix, N scored tokens, H key heads, d head
width, V vocabulary.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Sequence_
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import DynamicCache

from workbench.models import LoadedModel
from workbench.scoring._forward import forward_batch, project_only, target_statistics
from workbench.scoring._requests import Score, Sequence
from workbench.trace.structure import cache_argument

__all__ = [
    "LongPrefix",
    "Plan",
    "PrefixGroup",
    "PrefixTree",
    "Support",
    "build_trees",
    "forward_trees",
    "plan_prefixes",
    "read_prefix",
    "support_of",
]

# Nodes of a tree that several groups share; attention looks at all of them, so longer is slower in the end.
_MOST_NODES = 64
_OPEN_TREES = 8  # trees that may still take a group
# A shorter prefix is not worth a pass of its own; it also has to be half of what stands before the scored part.
_LONG = 64
# Contexts that begin alike for at least this share of the shorter one (fill-in-the-blank items) share a tree.
_ALIKE = 1 / 3
_CHECKED = (Sequence((1, 2, 3, 4, 5, 6, 7), 3), Sequence((1, 2, 3, 7, 6, 4), 3))
_TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-4}  # of log-probabilities, relative above one nat
_COARSE_TOLERANCE = 0.05
_SUPPORT: WeakKeyDictionary[torch.nn.Module, Support] = WeakKeyDictionary()


@dataclass(frozen=True)
class Support:
    """What a model computes as it does for single sequences: ``trees``, and going on from ``cached`` prefixes."""

    trees: bool
    cached: bool


def support_of(model: LoadedModel) -> Support:
    """Measured on two short sequences, once per model.

    Architectures with relative biases, convolutions or recurrent states do not support trees, and are read one
    sequence at a time.
    """
    if model.model not in _SUPPORT:
        trees = _takes_masks(model) and _agrees(model, lambda: _as_tree(model, 0))
        _SUPPORT[model.model] = Support(trees, trees and _agrees(model, lambda: _as_tree(model, 2)))
    return _SUPPORT[model.model]


def _takes_masks(model: LoadedModel) -> bool:
    if getattr(model.config, "_attn_implementation", None) not in ("eager", "sdpa"):
        return False
    # Layers with a sliding window each build a mask of their own.
    return not getattr(model.config.get_text_config(), "sliding_window", None)


def _as_tree(model: LoadedModel, cached: int) -> tuple[Score, ...]:
    """Scores of the checked sequences as a tree, their first ``cached`` ids read beforehand."""
    long = LongPrefix(_CHECKED[0].ids[:cached], ((0, 1),))
    cache = read_prefix(model, long.ids) if cached else None
    ((scores,),) = forward_trees(model, build_trees([long.following((0, 1), _CHECKED)]), cache)
    return scores


def _agrees(model: LoadedModel, read: Callable[[], tuple[Score, ...]]) -> bool:
    try:
        found = read()
    except (TypeError, ValueError, RuntimeError, IndexError, AttributeError):
        return False
    tolerance = _TOLERANCE.get(model.dtype, _COARSE_TOLERANCE)
    return all(
        abs(a - b) <= tolerance * max(1.0, abs(b))
        for got, expected in zip(found, forward_batch(model, list(_CHECKED)), strict=True)
        for a, b in zip(got.token_log_probabilities, expected.token_log_probabilities, strict=True)
    )


@dataclass(frozen=True)
class PrefixGroup:
    """Sequences scored together. ``shared`` leading ids are the same in all of them and read once."""

    members: tuple[Sequence, ...]

    @cached_property
    def shared(self) -> int:
        """How many leading ids are read once: never the last id of a member, which is only predicted."""
        first = self.members[0].ids
        return min(min(_common(first, member.ids), member.length) for member in self.members)

    @cached_property
    def length(self) -> int:
        """Tokens that the model reads for this group alone."""
        return self.shared + sum(member.length - self.shared for member in self.members)


def _common(first: Sequence_[int], second: Sequence_[int]) -> int:
    """Number of leading ids that are equal, by bisection."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if first[:middle] == second[:middle] else (low, middle - 1)
    return low


@dataclass(frozen=True)
class LongPrefix:
    """``ids`` that all sequences at the places in ``groups`` begin with; a group of places has one context."""

    ids: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]

    def following(self, places: Sequence_[int], sequences: Sequence_[Sequence]) -> PrefixGroup:
        """What the sequences at ``places`` read after the prefix."""
        length = len(self.ids)
        members = (sequences[place] for place in places)
        return PrefixGroup(tuple(replace(m, ids=m.ids[length:], start=m.start - length) for m in members))


@dataclass(frozen=True)
class Plan:
    """How sequences are read: ``alone``, in ``groups`` of one context, or after ``prefixes`` read beforehand."""

    alone: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]
    prefixes: tuple[LongPrefix, ...]


def plan_prefixes(sequences: Sequence_[Sequence], *, long: int = _LONG) -> Plan:
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
        groups=tuple(tuple(by_context[context]) for context in single if context not in alone),
        prefixes=tuple(
            LongPrefix(contexts[0][:shared], tuple(tuple(by_context[context]) for context in contexts))
            for shared, contexts in runs
            if len(contexts) > 1
        ),
    )


def _paired(contexts: Sequence_[tuple[int, ...]]) -> set[tuple[int, ...]]:
    """Of sorted contexts those that begin like the one before or after, and fit into one tree with it."""
    found: set[tuple[int, ...]] = set()
    for first, second in pairwise(contexts):
        common, shorter = _common(first, second), min(len(first), len(second))
        if common >= max(1, _ALIKE * shorter) and len(first) + len(second) - common <= _MOST_NODES:
            found |= {first, second}
    return found


@dataclass
class _Nodes:
    """Nodes in the order they were added, parents before children: token, depth, and parent of each."""

    ids: list[int] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    children: dict[tuple[int, int], int] = field(default_factory=dict)

    def add(self, ids: Sequence_[int]) -> list[int]:
        """The node of each id of a sequence, new ones where the sequence leaves those that are there."""
        path: list[int] = []
        for depth, token in enumerate(ids):
            parent = path[-1] if path else -1
            node = self.children.setdefault((parent, token), len(self.ids))
            if node == len(self.ids):
                self.ids.append(token)
                self.depths.append(depth)
                self.parents.append(parent)
            path.append(node)
        return path

    def fits(self, group: PrefixGroup) -> bool:
        """Whether there is room for what ``group`` would add."""
        node, known = -1, 0
        for token in group.members[0].ids[: group.shared]:
            if (node, token) not in self.children:
                break
            node, known = self.children[node, token], known + 1
        return len(self.ids) + group.length - known <= _MOST_NODES

    def visible(self, width: int) -> npt.NDArray[np.bool_]:
        """Which nodes (column) a node (row) attends to: its ancestors and itself; padding sees itself."""
        seen = np.eye(width, dtype=bool)
        for node, parent in enumerate(self.parents):
            if parent >= 0:
                seen[node] |= seen[parent]
        return seen


@dataclass(frozen=True)
class PrefixTree:
    """Groups that are read as one tree. ``length``: its nodes, the tokens that the model reads for them."""

    groups: tuple[PrefixGroup, ...]
    length: int

    def nodes(self) -> tuple[_Nodes, list[list[list[int]]]]:
        """The tree, and in it the node of each id that is read, for each member of each group."""
        nodes = _Nodes()
        return nodes, [[nodes.add(member.ids[:-1]) for member in group.members] for group in self.groups]


def build_trees(groups: Sequence_[PrefixGroup]) -> list[PrefixTree]:
    """Groups that begin alike put together, and small ones, so that trees of one size can be batched.

    A group goes into the latest tree with room for it, of the few that are still open.
    """
    found: list[PrefixTree] = []
    growing: list[tuple[_Nodes, list[PrefixGroup]]] = []
    for group in sorted(groups, key=lambda group: group.members[0].ids):
        place = next((place for place in reversed(growing) if place[0].fits(group)), None)
        if place is None:
            place = (_Nodes(), [])
            growing.append(place)
        nodes, inside = place
        for member in group.members:
            nodes.add(member.ids[:-1])
        inside.append(group)
        if len(growing) > _OPEN_TREES:
            nodes, inside = growing.pop(0)
            found.append(PrefixTree(tuple(inside), len(nodes.ids)))
    return found + [PrefixTree(tuple(inside), len(nodes.ids)) for nodes, inside in growing]


def forward_trees(
    model: LoadedModel, batch: Sequence_[PrefixTree], cache: Any | None = None
) -> list[tuple[tuple[Score, ...], ...]]:
    """For each tree's groups the scores of their members, as :func:`forward_batch` would give them one by one.

    A node attends to its ancestors, and its position is its depth. ``cache`` holds keys and values of ids that
    stand before every group; all nodes attend to them.
    """
    built = [tree.nodes() for tree in batch]
    trees = [nodes for nodes, _ in built]
    width = max(len(tree.ids) for tree in trees)
    nodes: list[int] = []
    targets: list[int] = []
    for row, (tree, (_, paths)) in enumerate(zip(batch, built, strict=True)):
        for group, of_group in zip(tree.groups, paths, strict=True):
            for member, path in zip(group.members, of_group, strict=True):
                nodes += [row * width + path[place - 1] for place in range(member.start, len(member.ids))]
                targets += member.ids[member.start :]
    # What follows a shared node is predicted for all from one hidden state.
    unique, owners = torch.tensor(nodes).unique(return_inverse=True)
    wanted = torch.tensor(targets, device=model.device)
    inputs = _inputs(model, trees, width, 0 if cache is None else cache.get_seq_length())
    if cache is not None:
        inputs[cache_argument(model.model)] = _for_rows(cache, len(trees))
    owners = owners.to(model.device)
    shape = inputs["input_ids"].shape
    with (
        model.lock,
        torch.inference_mode(),
        project_only(model.model, unique.to(model.device), shape) as projected,
    ):
        # (unique nodes, V)
        logits = projected.chosen(model.model(**inputs, use_cache=cache is not None).logits)
        exact = projected.exact(logits, wanted, owners)
    scores = _scores(batch, targets, *target_statistics(logits, wanted, owners, exact))
    return [tuple(tuple(next(scores) for _ in group.members) for group in tree.groups) for tree in batch]


def _scores(
    batch: Sequence_[PrefixTree],
    targets: list[int],
    log_probabilities: Float[Tensor, " N"],
    greedy: Int[Tensor, " N"],
    ranks: Int[Tensor, " N"],
) -> Iterator[Score]:
    probabilities, best, places = log_probabilities.tolist(), greedy.tolist(), ranks.tolist()
    start = 0
    for member in (member for tree in batch for group in tree.groups for member in group.members):
        part = slice(start, start + member.targets)
        start += member.targets
        yield Score(
            token_ids=tuple(targets[part]),
            token_log_probabilities=tuple(probabilities[part]),
            greedy_ids=tuple(best[part]),
            ranks=tuple(places[part]),
            truncated=member.truncated,
            inside_token=member.inside_token,
        )


def _for_rows(prefix: Any, rows: int) -> Any:
    """A cache of ``rows`` equal rows to go on from; that of the prefix is not touched."""
    cache = DynamicCache()
    for number, layer in enumerate(prefix.layers):
        cache.update(layer.keys.expand(rows, -1, -1, -1), layer.values.expand(rows, -1, -1, -1), number)
    return cache


def _inputs(model: LoadedModel, trees: Sequence_[_Nodes], width: int, before: int) -> dict[str, Any]:
    """Ids and positions (B, T), and the mask (B, 1, T, P + T) added to attention scores, P ids standing before."""
    padding = model.tokenizer.pad_token_id or 0
    padded = lambda rows, filler: torch.tensor(  # noqa: E731
        [row + [filler] * (width - len(row)) for row in rows], device=model.device
    )
    seen = np.stack([tree.visible(width) for tree in trees])
    seen = np.concatenate([np.ones((len(trees), width, before), dtype=bool), seen], axis=2)
    visible = torch.from_numpy(seen).to(model.device)
    mask = torch.zeros(visible.shape, dtype=model.dtype, device=model.device)
    return {
        "input_ids": padded([tree.ids for tree in trees], padding),
        "position_ids": padded([tree.depths for tree in trees], 0) + before,
        "attention_mask": mask.masked_fill_(~visible, torch.finfo(model.dtype).min)[:, None],
    }


def read_prefix(model: LoadedModel, prefix: Sequence_[int]) -> Any:
    """Keys and values of ``prefix``, (1, H, P, d) a layer, in transformers' cache."""
    ids = torch.tensor([list(prefix)], device=model.device)
    # The body alone: nobody asks what follows the prefix, so nothing is projected to the vocabulary.
    body, cache = model.model.base_model, DynamicCache()
    with model.lock, torch.inference_mode():
        body(input_ids=ids, use_cache=True, **{cache_argument(body): cache})
    return cache
