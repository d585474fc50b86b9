"""One forward pass: hidden states everywhere, the vocabulary projection only where a token is scored."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Sequence as Sequence_
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from workbench.errors import NumericsError
from workbench.models import LoadedModel
from workbench.models.dispatched import weights_in_memory
from workbench.scoring._requests import Score, Sequence

__all__ = [
    "Projected",
    "SharedHooks",
    "forward_batch",
    "in_rows",
    "project_only",
    "scored_logits",
    "scores_of",
    "target_statistics",
]


class SharedHooks:
    """Hooks that ``put`` registers on a module: the first who uses them puts them on, the last takes them off.

    What differs between threads has to be kept by thread; the hooks are the same for all.
    """

    def __init__(self, put: Callable[[nn.Module], Iterable[RemovableHandle]]) -> None:
        self._put = put
        self._lock = threading.Lock()
        self._users: dict[nn.Module, tuple[int, tuple[RemovableHandle, ...]]] = {}

    @contextmanager
    def on(self, *modules: nn.Module) -> Iterator[None]:
        """The hooks are on these modules while this is open."""
        with self._lock:
            for module in modules:
                users, handles = self._users.get(module) or (0, tuple(self._put(module)))
                self._users[module] = users + 1, handles
        try:
            yield
        finally:
            with self._lock:
                for module in modules:
                    users, handles = self._users.pop(module)
                    if users > 1:
                        self._users[module] = users - 1, handles
                        continue
                    for handle in handles:
                        handle.remove()


# Rows of logits turned into log-probabilities at a time: their float32 copy should stay in a CPU's cache, and
# must not fill a GPU's memory.
_CPU_ROWS = 64


_GPU_ROWS = 512


def forward_batch(model: LoadedModel, batch: list[Sequence]) -> list[Score]:
    """Scores of ``batch``.

    Raises :class:`NumericsError` if a scored position has NaN or no finite logit.
    """
    logits, targets, exact = scored_logits(model, batch)
    return scores_of(batch, targets, target_statistics(logits, targets, exact=exact))


def scored_logits(
    model: LoadedModel, batch: list[Sequence]
) -> tuple[Float[Tensor, "N V"], Int[Tensor, " N"], Float[Tensor, " N"] | None]:
    """Logits at each scored token of ``batch``, the tokens, and their exact logits (:meth:`Projected.exact`).

    Sequences are padded on the right: causal attention never looks there.
    """
    ids, positions, targets = _tensors(model, batch)
    with model.lock, torch.inference_mode(), project_only(model.model, positions, ids.shape) as projected:
        logits = projected.chosen(model.model(input_ids=ids, use_cache=False).logits)
        return logits, targets, projected.exact(logits, targets)


def scores_of(
    batch: list[Sequence],
    targets: Int[Tensor, " N"],
    statistics: tuple[Float[Tensor, " N"], Int[Tensor, " N"], Int[Tensor, " N"]],
) -> list[Score]:
    """The columns of :func:`target_statistics`, split by sequence."""
    counts = [sequence.targets for sequence in batch]
    columns = [part.split(counts) for part in (targets.cpu(), *statistics)]
    return [
        Score(
            token_ids=tuple(t.tolist()),
            token_log_probabilities=tuple(p.tolist()),
            greedy_ids=tuple(g.tolist()),
            ranks=tuple(r.tolist()),
            truncated=sequence.truncated,
            inside_token=sequence.inside_token,
        )
        for sequence, t, p, g, r in zip(batch, *columns, strict=True)
    ]


def in_rows(
    logits: Float[Tensor, "N V"], of_rows: Callable[[Float[Tensor, "r V"]], Float[Tensor, " r"]]
) -> Float[Tensor, " N"]:
    """``of_rows`` of some rows of float32 logits at a time, on the CPU."""
    step = _CPU_ROWS if logits.device.type == "cpu" else _GPU_ROWS
    return torch.cat([of_rows(part.float()).cpu() for part in logits.split(step)])


def _tensors(
    model: LoadedModel, batch: list[Sequence]
) -> tuple[Int[Tensor, "B T"], Int[Tensor, " N"], Int[Tensor, " N"]]:
    """Padded input ids, flat positions (row * T + column) that predict a target, and the targets' ids."""
    width = max(sequence.length for sequence in batch)
    padding = model.tokenizer.pad_token_id or 0
    rows = [[*s.ids[:-1], *([padding] * (width - s.length))] for s in batch]
    positions = [row * width + i - 1 for row, s in enumerate(batch) for i in range(s.start, len(s.ids))]
    targets = [token for s in batch for token in s.ids[s.start :]]
    as_tensor = lambda values: torch.tensor(values, device=model.device)  # noqa: E731
    return as_tensor(rows), as_tensor(positions), as_tensor(targets)


class Projected:
    """What the output projection of a pass was given and gave, if it was called with one state a token."""

    def __init__(self, head: nn.Module, positions: Int[Tensor, " N"], shape: Sequence_[int]) -> None:
        self._head = head
        self._positions = positions
        self._shape = tuple(shape)
        self._hidden: Tensor | None = None
        self._logits: Tensor | None = None

    def gather(self, hidden: Tensor) -> Tensor:
        """The states (1, N, D) at the positions; states that are not (B, T, D) stay as they are."""
        if hidden.shape[:-1] == self._shape:
            self._hidden = hidden.flatten(0, 1)[self._positions][None]
            return self._hidden
        return hidden

    def see(self, hidden: Tensor, logits: Tensor) -> None:
        """Keep the logits of the gathered states until the targets are looked up."""
        if hidden is self._hidden:
            self._logits = logits

    def chosen(self, logits: Float[Tensor, "B T V"]) -> Float[Tensor, "N V"]:
        """The model's logits at the positions: all that it returns, if its head ran there alone."""
        return logits.flatten(0, 1)[self._positions] if self._hidden is None else logits[0]

    def exact(
        self,
        logits: Float[Tensor, "N V"],
        targets: Int[Tensor, " M"],
        rows: Int[Tensor, " M"] | None = None,
    ) -> Float[Tensor, " M"] | None:
        """The targets' logits in float32 where ``logits`` are coarser, else ``None``.

        A bfloat16 logit of 16 is a multiple of 0.125, so that two answers of a question tie; their dot products
        with the hidden state do not. ``None`` too if the model changes its logits after the projection, or if that
        is more than a matrix (quantised, adapted).
        """
        if self._hidden is None or self._logits is None or type(self._head) is not torch.nn.Linear:
            return None
        if logits.dtype not in (torch.bfloat16, torch.float16) or self._head.weight.dtype != logits.dtype:
            return None
        if logits.data_ptr() != self._logits.data_ptr():
            return None
        hidden = self._hidden[0] if rows is None else self._hidden[0, rows]
        with weights_in_memory(self._head):
            weight, bias = self._head.weight[targets].float(), self._head.bias
            products = (hidden.float() * weight).sum(-1)
            return products if bias is None else products + bias[targets].float()


@contextmanager
def project_only(model: Any, positions: Int[Tensor, " N"], shape: Sequence_[int]) -> Iterator[Projected]:
    """While open, the output projection of a pass over (B, T) = ``shape`` tokens sees only flat ``positions``.

    The head gets (1, N, D) instead of (B, T, D), so its logits are (1, N, V), and whatever the architecture does
    to logits afterwards (scaling, soft-capping) still happens. :meth:`Projected.chosen` also serves models that
    multiply with the head's matrix themselves (MobileBERT) or give it other states (ProphetNet's streams).
    """
    head = model.get_output_embeddings()
    seen = Projected(head, positions, shape)
    asked = _HERE.__dict__.setdefault("asked", {})
    asked[head] = seen
    try:
        with _HEADS.on(head):
            yield seen
    finally:
        del asked[head]


def _asked_of(head: nn.Module) -> Projected | None:
    """What this thread asked of a head."""
    found: Projected | None = getattr(_HERE, "asked", {}).get(head)
    return found


def _look(head: nn.Module, arguments: tuple[Any, ...], output: Any) -> None:
    """Note the gathered states' logits."""
    asked = _asked_of(head)
    if asked is not None:
        asked.see(arguments[0], output)


def _select(head: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The arguments with the hidden states gathered; untouched in a thread that asked for nothing."""
    asked = _asked_of(head)
    return None if asked is None else (asked.gather(arguments[0]), *arguments[1:])


_HERE = threading.local()


_HEADS = SharedHooks(
    lambda head: (head.register_forward_pre_hook(_select), head.register_forward_hook(_look))
)


def target_statistics(
    logits: Float[Tensor, "R V"],
    targets: Int[Tensor, " N"],
    rows: Int[Tensor, " N"] | None = None,
    exact: Float[Tensor, " N"] | None = None,
) -> tuple[Float[Tensor, " N"], Int[Tensor, " N"], Int[Tensor, " N"]]:
    """Log-probability, most likely token and rank (from 1) of each target, on the CPU.

    ``rows`` says which row of logits predicts which target; without it the rows go target by target.
    ``exact`` are the targets' own logits (see :class:`Projected`), which log-probabilities are then made of.
    """
    if rows is None:
        rows = torch.arange(len(targets), device=targets.device)
    order = rows.argsort(stable=True)
    step = _CPU_ROWS if logits.device.type == "cpu" else _GPU_ROWS
    parts = [
        _of_rows(logits[start : start + step].float(), start, targets[order], rows[order])
        for start in range(0, len(logits), step)
    ]
    columns = [torch.cat(column) for column in zip(*parts, strict=True)]
    if exact is not None:
        columns[0] = _refined(columns[0], exact[order] - logits[rows[order], targets[order]].float())
    log_probabilities, greedy, ranks = (torch.empty_like(c).index_copy_(0, order, c).cpu() for c in columns)
    if not bool(torch.isfinite(log_probabilities).all()):
        broken = int((~torch.isfinite(log_probabilities)).sum())
        raise NumericsError(
            f"the model gave NaN or infinite log-probabilities at {broken} of {len(log_probabilities)} tokens; "
            "its weights are broken or the precision is too low: try --dtype float32"
        )
    return log_probabilities, greedy, ranks


def _refined(log_probabilities: Float[Tensor, " N"], moved: Float[Tensor, " N"]) -> Float[Tensor, " N"]:
    """With each target's own logit moved by so much, in the numerator and in the sum."""
    return log_probabilities + moved - torch.log1p(log_probabilities.exp() * torch.expm1(moved))


def _of_rows(
    scores: Float[Tensor, "r V"], start: int, targets: Int[Tensor, " N"], rows: Int[Tensor, " N"]
) -> tuple[Float[Tensor, " n"], Int[Tensor, " n"], Int[Tensor, " n"]]:
    """The three columns for the targets predicted by rows ``start`` on; ``rows`` ascend."""
    first, last = (int(torch.searchsorted(rows, bound)) for bound in (start, start + len(scores)))
    wanted, here = targets[first:last], rows[first:last] - start
    chosen = scores[here, wanted]  # (n,)
    total, best = scores.logsumexp(1), _most_likely(scores)
    return chosen - total[here], best[here], _above(scores, chosen, here) + 1


def _above(
    scores: Float[Tensor, "r V"], chosen: Float[Tensor, " n"], here: Int[Tensor, " n"]
) -> Int[Tensor, " n"]:
    """How many scores of a target's row are higher than its own."""
    if len(here) == len(scores):  # one target a row: no copy
        return (scores > chosen[:, None]).sum(1)
    if scores.device.type == "cpu":  # row by row costs less than a copy of the rows
        return torch.stack([(scores[row] > value).sum() for row, value in zip(here, chosen, strict=True)])
    return (scores[here] > chosen[:, None]).sum(1)


def _most_likely(scores: Float[Tensor, "r V"]) -> Int[Tensor, " r"]:
    """The place of each row's highest score; NumPy's search is several times faster than torch's on CPUs."""
    if scores.device.type == "cpu":
        return torch.from_numpy(scores.numpy().argmax(1))
    return scores.argmax(1)
