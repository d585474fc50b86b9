"""What probes share: labels and features checked, and Adam with early stopping where there is no closed form."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from workbench.errors import TaskError
from workbench.shapes import Array

__all__ = ["MAX_CLASSES", "encode", "features_of", "train_classifier"]

# Above this a classifier's weights outgrow memory and its classes have hardly any examples each.
MAX_CLASSES = 2000


def encode(labels: Array) -> tuple[Array, Array]:
    """The classes, sorted, and each label's number among them.

    Raises :class:`TaskError` for fewer than two classes or more than :data:`MAX_CLASSES`.
    """
    classes, codes = np.unique(np.asarray(labels), return_inverse=True)
    if len(classes) < 2:
        found = "no label" if not len(classes) else f"only the label {classes[0]!s:.40}"
        raise TaskError(f"a probe needs at least two classes, the training items have {found}")
    if len(classes) > MAX_CLASSES:
        raise TaskError(
            f"{len(classes):,} classes are too many for this probe (at most {MAX_CLASSES:,}); "
            "use --probe knn, or a coarser label"
        )
    return classes, codes.astype(np.int64)


def features_of(features: Array, dimensions: int = 2) -> Array:
    """``features`` as float32; raises :class:`TaskError` for another number of axes or NaN."""
    found = np.asarray(features, dtype=np.float32)
    if found.ndim != dimensions or not len(found):
        raise TaskError(f"features must have {dimensions} axes and at least one row, got shape {found.shape}")
    if not np.isfinite(found).all():
        raise TaskError("features hold NaN or infinite numbers; check the model: workbench doctor MODEL")
    return found


_ROWS_PER_BATCH = 256


def train_classifier(
    module: nn.Module,
    inputs: Tensor,
    codes: Array,
    *,
    epochs: int,
    learning_rate: float,
    weight_decay: float,
    seed: int,
    patience: int = 4,
) -> int:
    """Train for as many epochs as do best on a tenth of the rows; returns how many.

    The number is found by training on the other nine tenths; from the same first weights the module is then
    trained for that long on all rows (Goodfellow et al. 2016, algorithm 7.2).
    """
    targets = torch.as_tensor(codes)
    order = torch.as_tensor(np.random.default_rng(seed).permutation(len(targets)))
    held, kept = order[: max(len(order) // 10, 1)], order[max(len(order) // 10, 1) :]
    first = copy.deepcopy(module.state_dict())
    best, best_loss = 1, float("inf")
    trained = _epochs(module, inputs, targets, kept, learning_rate, weight_decay, seed)
    for done in itertools.islice(trained, epochs):
        loss = _loss(module, inputs, targets, held)
        if loss < best_loss:
            best, best_loss = done, loss
        if done - best >= patience:
            break
    module.load_state_dict(first)
    again = _epochs(module, inputs, targets, order, learning_rate, weight_decay, seed)
    for _ in itertools.islice(again, best):
        pass
    module.eval()
    return best


def _epochs(
    module: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    rows: Tensor,
    learning_rate: float,
    weight_decay: float,
    seed: int,
) -> Iterator[int]:
    """Train on ``rows``, in an order drawn by ``seed``; gives the number of each epoch when it is done, from 1."""
    optimiser = torch.optim.AdamW(_groups(module, learning_rate, weight_decay))
    generator = torch.Generator().manual_seed(seed)
    for number in itertools.count(1):
        module.train()
        for batch in rows[torch.randperm(len(rows), generator=generator)].split(_ROWS_PER_BATCH):
            optimiser.zero_grad()
            F.cross_entropy(module(inputs[batch]), targets[batch]).backward()
            optimiser.step()
        yield number


def _groups(module: nn.Module, learning_rate: float, weight_decay: float) -> list[dict[str, Any]]:
    """Weights that are not vectors or matrices of a layer (mixing scores) learn faster and are not decayed."""
    mixing = [p for name, p in module.named_parameters() if name == "scores"]
    others = [p for name, p in module.named_parameters() if name != "scores"]
    return [
        {"params": others, "lr": learning_rate, "weight_decay": weight_decay},
        {"params": mixing, "lr": 10 * learning_rate, "weight_decay": 0.0},
    ]


def _loss(module: nn.Module, inputs: Tensor, targets: Tensor, rows: Tensor) -> float:
    module.eval()
    with torch.no_grad():
        losses = [F.cross_entropy(module(inputs[r]), targets[r], reduction="sum") for r in rows.split(2048)]
    return float(sum(losses)) / len(rows)
