"""Sequences that start alike, read as a tree: the shared ids once, then each branch.

Axis legend: B forks, T nodes of a fork (padded), N scored tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Sequence_
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, takewhile
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float, Int
from torch import Tensor

from workbench.models import LoadedModel
from workbench.scoring._forward import forward_batch, project_only, target_statistics
from workbench.scoring._records import Score, Sequence

__all__ = ["Fork", "forward_forks", "from_difference", "reads_trees"]

_PADDING = -1  # branch number of padding
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

    @cached_property
    def length(self) -> int:
        """Nodes of the tree, that is, tokens that the model reads."""
        return self.shared + sum(member.length - self.shared for member in self.members)

    def offsets(self) -> list[int]:
        """For each member the node where its branch starts."""
        lengths = (member.length - self.shared for member in self.members)
        return list(accumulate(lengths, initial=self.shared))[:-1]


def _common(members: Sequence_[Sequence]) -> int:
    """Number of leading ids that all members have in common."""
    columns = zip(*(member.ids for member in members), strict=False)
    return sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, columns))


def from_difference(members: Sequence_[Sequence]) -> Fork:
    """A fork scored only where the members differ or follow: differences between them stay the same.

    Members that are equal keep their last token, so that there is something to score.
    """
    common = min(_common(members), min(len(member.ids) for member in members) - 1)
    return Fork(tuple(replace(member, start=max(member.start, common)) for member in members))


def forward_forks(model: LoadedModel, forks: Sequence_[Fork]) -> list[tuple[Score, ...]]:
    """Scores of every fork's members, as :func:`forward_batch` would give them one by one.

    A node attends to the shared nodes and to its own branch, and its position is its place in its member.
    """
    width = max(fork.length for fork in forks)
    rows, targets = _scored(forks, width)
    # The token after a shared node is predicted for all members from one hidden state.
    nodes, owners = torch.tensor(rows).unique(return_inverse=True)
    wanted = torch.tensor(targets, device=model.device)
    inputs = _inputs(model, forks, width)
    with model.lock, torch.inference_mode(), project_only(model.model, nodes.to(model.device)):
        logits = model.model(**inputs, use_cache=False).logits[0]  # (unique nodes, V)
    log_probabilities, greedy, ranks = target_statistics(logits, wanted, owners.to(model.device))
    scores = _scores(forks, targets, log_probabilities, greedy, ranks)
    return [tuple(next(scores) for _ in fork.members) for fork in forks]


def _scores(
    forks: Sequence_[Fork],
    targets: list[int],
    log_probabilities: Float[Tensor, " N"],
    greedy: Int[Tensor, " N"],
    ranks: Int[Tensor, " N"],
) -> Iterator[Score]:
    probabilities, best, places = log_probabilities.tolist(), greedy.tolist(), ranks.tolist()
    start = 0
    for member in (member for fork in forks for member in fork.members):
        part = slice(start, start + member.targets)
        start += member.targets
        yield Score(
            token_ids=tuple(targets[part]),
            token_log_probabilities=tuple(probabilities[part]),
            greedy_ids=tuple(best[part]),
            ranks=tuple(places[part]),
            truncated=member.truncated,
        )


def _scored(forks: Sequence_[Fork], width: int) -> tuple[list[int], list[int]]:
    """Flat node (row * T + column) that predicts each scored token, and the token's id."""
    nodes: list[int] = []
    targets: list[int] = []
    for row, fork in enumerate(forks):
        for member, offset in zip(fork.members, fork.offsets(), strict=True):
            # The node of place i: itself while shared, then counted from the start of the branch.
            places = range(member.start - 1, member.length)
            nodes += [row * width + (i if i < fork.shared else i - fork.shared + offset) for i in places]
            targets += member.ids[member.start :]
    return nodes, targets


def _inputs(model: LoadedModel, forks: Sequence_[Fork], width: int) -> dict[str, Tensor]:
    """Ids and positions (B, T), and the mask (B, 1, T, T) that is added to attention scores."""
    padding = model.tokenizer.pad_token_id or 0
    ids, positions, branches = [], [], []
    for fork in forks:
        shared, gap = fork.shared, width - fork.length
        row, places, numbers = list(fork.members[0].ids[:shared]), list(range(shared)), [0] * shared
        for number, member in enumerate(fork.members, start=1):
            row += member.ids[shared:-1]
            places += range(shared, member.length)
            numbers += [number] * (member.length - shared)
        ids.append(row + [padding] * gap)
        positions.append(places + [0] * gap)
        branches.append(numbers + [_PADDING] * gap)
    return {
        "input_ids": torch.tensor(ids, device=model.device),
        "position_ids": torch.tensor(positions, device=model.device),
        "attention_mask": _mask(torch.tensor(branches, device=model.device), model.dtype),
    }


def _mask(branches: Int[Tensor, "B T"], dtype: torch.dtype) -> Float[Tensor, "B 1 T T"]:
    """0 where a node (row) may attend to another (column): not later, and shared or of its own branch."""
    width = branches.shape[1]
    earlier = torch.ones(width, width, dtype=torch.bool, device=branches.device).tril()
    query, key = branches[:, :, None], branches[:, None, :]
    allowed = earlier & ((key == 0) | (key == query))  # padding attends to itself: no row is empty
    mask = torch.zeros(allowed.shape, dtype=dtype, device=branches.device)
    return mask.masked_fill_(~allowed, torch.finfo(dtype).min)[:, None]


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
        tree = forward_forks(model, [Fork((first, second))])[0]
    except (TypeError, ValueError, RuntimeError, IndexError):
        return False
    alone = forward_batch(model, [first, second])
    tolerance = _CHECK_TOLERANCE.get(model.dtype, _COARSE_TOLERANCE)
    return all(
        abs(a - b) <= tolerance * max(1.0, abs(b))
        for got, expected in zip(tree, alone, strict=True)
        for a, b in zip(got.token_log_probabilities, expected.token_log_probabilities, strict=True)
    )
