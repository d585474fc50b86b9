"""Sequences that start alike, read as trees: what they share is read once.

Axis legend: B trees, T nodes of a tree (padded), N scored tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Sequence_
from dataclasses import dataclass, field
from functools import cached_property
from inspect import signature
from itertools import takewhile
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
from workbench.scoring._records import Score, Sequence

__all__ = [
    "NODES",
    "Fork",
    "Grove",
    "cache_argument",
    "forward_groves",
    "groves",
    "reads_trees",
]

# Nodes of a tree that several forks share; attention looks at all of them, so longer is slower in the end.
NODES = 64
_GROWING = 8  # trees that may still take a fork
_CHECK_IDS = (1, 2, 3, 4, 5, 6, 7)
_CHECK_TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-4}
_COARSE_TOLERANCE = 0.05
# Whether a model reads trees right, by its module: found out by trying, once.
_VERDICTS: WeakKeyDictionary[torch.nn.Module, bool] = WeakKeyDictionary()


@dataclass(frozen=True)
class Fork:
    """Sequences scored together. ``shared`` leading ids are the same in all of them and read once."""

    members: tuple[Sequence, ...]

    @cached_property
    def shared(self) -> int:
        """How many leading ids are read once: never the last id of a member, which is only predicted."""
        return min(_common(self.members), min(member.length for member in self.members))

    @property
    def key(self) -> tuple[int, ...]:
        """Forks next to one another by this key begin alike."""
        return self.members[0].ids

    @cached_property
    def length(self) -> int:
        """Tokens that the model reads for this fork alone."""
        return self.shared + sum(member.length - self.shared for member in self.members)


def _common(members: Sequence_[Sequence]) -> int:
    """Number of leading ids that all members have in common."""
    columns = zip(*(member.ids for member in members), strict=False)
    return sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, columns))


@dataclass
class _Tree:
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

    def fits(self, fork: Fork) -> bool:
        """Whether there is room for what ``fork`` would add."""
        node, known = -1, 0
        for token in fork.members[0].ids[: fork.shared]:
            if (node, token) not in self.children:
                break
            node, known = self.children[node, token], known + 1
        return len(self.ids) + fork.length - known <= NODES

    def visible(self, width: int) -> npt.NDArray[np.bool_]:
        """Which nodes (column) a node (row) attends to: its ancestors and itself; padding sees itself."""
        seen = np.eye(width, dtype=bool)
        for node, parent in enumerate(self.parents):
            if parent >= 0:
                seen[node] |= seen[parent]
        return seen


@dataclass(frozen=True)
class Grove:
    """Forks that make one tree. ``length``: its nodes, the tokens that the model reads for them."""

    forks: tuple[Fork, ...]
    length: int

    def planted(self) -> tuple[_Tree, list[list[list[int]]]]:
        """The tree, and in it the node of each id that is read, for each member of each fork."""
        tree = _Tree()
        return tree, [[tree.add(member.ids[:-1]) for member in fork.members] for fork in self.forks]


def groves(forks: Sequence_[Fork]) -> list[Grove]:
    """Forks that begin alike put together, and small ones, so that trees of one size can be batched.

    A fork goes into the latest tree with room for it, of the few that are still looked at.
    """
    found: list[Grove] = []
    growing: list[tuple[_Tree, list[Fork]]] = []
    for fork in sorted(forks, key=lambda fork: fork.key):
        place = next((place for place in reversed(growing) if place[0].fits(fork)), None)
        if place is None:
            place = (_Tree(), [])
            growing.append(place)
        tree, members = place
        for member in fork.members:
            tree.add(member.ids[:-1])
        members.append(fork)
        if len(growing) > _GROWING:
            tree, members = growing.pop(0)
            found.append(Grove(tuple(members), len(tree.ids)))
    return found + [Grove(tuple(members), len(tree.ids)) for tree, members in growing]


def forward_groves(
    model: LoadedModel, batch: Sequence_[Grove], kept: Any | None = None
) -> list[tuple[tuple[Score, ...], ...]]:
    """For each grove's forks the scores of their members, as :func:`forward_batch` would give them one by one.

    A node attends to its ancestors, and its position is its depth. ``kept`` holds keys and values of ids that
    stand before every fork; all nodes attend to them.
    """
    planted = [grove.planted() for grove in batch]
    trees = [tree for tree, _ in planted]
    width = max(len(tree.ids) for tree in trees)
    nodes: list[int] = []
    targets: list[int] = []
    for row, (grove, (_, paths)) in enumerate(zip(batch, planted, strict=True)):
        for fork, of_fork in zip(grove.forks, paths, strict=True):
            for member, path in zip(fork.members, of_fork, strict=True):
                nodes += [row * width + path[place - 1] for place in range(member.start, len(member.ids))]
                targets += member.ids[member.start :]
    # What follows a shared node is predicted for all from one hidden state.
    unique, owners = torch.tensor(nodes).unique(return_inverse=True)
    wanted = torch.tensor(targets, device=model.device)
    inputs = _inputs(model, trees, width, 0 if kept is None else kept.get_seq_length())
    if kept is not None:
        inputs[cache_argument(model.model)] = _for_rows(kept, len(trees))
    owners = owners.to(model.device)
    shape = inputs["input_ids"].shape
    with (
        model.lock,
        torch.inference_mode(),
        project_only(model.model, unique.to(model.device), shape) as projected,
    ):
        # (unique nodes, V)
        logits = projected.chosen(model.model(**inputs, use_cache=kept is not None).logits)
        exact = projected.exact(logits, wanted, owners)
    scores = _scores(batch, targets, *target_statistics(logits, wanted, owners, exact))
    return [tuple(tuple(next(scores) for _ in fork.members) for fork in grove.forks) for grove in batch]


def _scores(
    batch: Sequence_[Grove],
    targets: list[int],
    log_probabilities: Float[Tensor, " N"],
    greedy: Int[Tensor, " N"],
    ranks: Int[Tensor, " N"],
) -> Iterator[Score]:
    probabilities, best, places = log_probabilities.tolist(), greedy.tolist(), ranks.tolist()
    start = 0
    for member in (member for grove in batch for fork in grove.forks for member in fork.members):
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


def cache_argument(module: Any) -> str:
    """What the module's forward calls the keys and values it goes on from; transformers 5 renamed it."""
    return "cache" if "cache" in signature(module.forward).parameters else "past_key_values"


def _for_rows(kept: Any, rows: int) -> Any:
    """A cache of ``rows`` equal rows to go on from; the kept one is not touched."""
    cache = DynamicCache()
    for number, layer in enumerate(kept.layers):
        cache.update(layer.keys.expand(rows, -1, -1, -1), layer.values.expand(rows, -1, -1, -1), number)
    return cache


def _inputs(model: LoadedModel, trees: Sequence_[_Tree], width: int, before: int) -> dict[str, Any]:
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


def reads_trees(model: LoadedModel) -> bool:
    """Whether the model takes positions and a mask of trees and gives what it gives for single sequences.

    Found out by trying a small fork, once per model: architectures with relative biases, convolutions or
    recurrent states do not, and are read one sequence at a time.
    """
    if model.model not in _VERDICTS:
        _VERDICTS[model.model] = _try(model)
    return _VERDICTS[model.model]


def _try(model: LoadedModel) -> bool:
    if getattr(model.config, "_attn_implementation", None) not in ("eager", "sdpa"):
        return False
    if getattr(model.config.get_text_config(), "sliding_window", None):
        return False  # its layers each build a mask of their own
    first, second = Sequence(_CHECK_IDS, 3), Sequence((*_CHECK_IDS[:3], 7, 6, 4), 3)
    try:
        ((tree,),) = forward_groves(model, groves([Fork((first, second))]))
    except (TypeError, ValueError, RuntimeError, IndexError):
        return False
    alone = forward_batch(model, [first, second])
    tolerance = _CHECK_TOLERANCE.get(model.dtype, _COARSE_TOLERANCE)
    return all(
        abs(a - b) <= tolerance * max(1.0, abs(b))
        for got, expected in zip(tree, alone, strict=True)
        for a, b in zip(got.token_log_probabilities, expected.token_log_probabilities, strict=True)
    )
