"""From a recipe and a model to features, labels and control labels, parted for training and testing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int

from probes._data import ProbeData, joined
from probes.controls import control_labels
from probes.estimators.fitting import MAX_CLASSES
from probes.features import Features, extract, with_random_weights
from probes.features.policy import resolve_pool
from probes.settings import ProbeSettings
from probes.solvers.rows import Rows, Scaling, scaling_of
from probes.splits import Split, split_at, split_items
from probes.tasks import load_task
from workbench.errors import TaskError
from workbench.models import LoadedModel
from workbench.shapes import Array

__all__ = ["Prepared", "item_matrix", "item_rows", "prepare", "read_data"]


@dataclass(frozen=True, eq=False)
class Prepared:
    """Everything that a probe is fitted on. ``codes`` (item,) number the training classes, -1 is any other.

    ``control`` (seed, item) are the labels of the control tasks; ``unread`` counts items without a vector;
    ``device`` is where linear probes are solved.
    """

    data: ProbeData
    split: Split
    classes: tuple[str, ...]
    codes: Int[Array, " item"]
    control: Int[Array, "seed item"]
    features: Features
    random: Features | None
    unread: int
    device: torch.device

    @property
    def train_codes(self) -> Array:
        """The training items' classes."""
        return self.codes[self.split.train]

    @property
    def test_codes(self) -> Array:
        """The test items' classes."""
        return self.codes[self.split.test]

    def clusters(self, items: Array) -> Array:
        """The sentence of each item."""
        found: Array = self.data.sentence_of[items]
        return found

    def types(self, items: Array) -> list[str]:
        """The word type of each item."""
        return [self.data.items[i].type for i in items]


def read_data(settings: ProbeSettings) -> tuple[ProbeData, Split]:
    """The items, and how they are split; needs no model, so mistakes in files are reported before one is loaded."""
    data = load_task(settings.task, settings.data, settings.limit, settings.seed)
    if settings.train is None:
        return data, split_items(data, settings.split, settings.test_share, settings.seed)
    train = load_task(settings.task, settings.train, settings.limit, settings.seed)
    both = joined(train, data)
    return both, split_at(both, len(train.sentences), settings.split)


def prepare(
    model: LoadedModel,
    settings: ProbeSettings,
    data: ProbeData,
    split: Split,
    *,
    progress: bool = False,
) -> Prepared:
    """Extract features and number the labels; raises :class:`TaskError` for one class or too many."""
    codes, classes = _codes(data, split, settings)
    features = _features(model, settings, data, progress)
    blank = None
    if settings.random_weights:
        blank = _features(with_random_weights(model, settings.seed), settings, data, progress)
    readable = features.valid[data.place_rows].all(1)
    kept = Split(split.train[readable[split.train]], split.test[readable[split.test]], split.statement)
    if not len(kept.train) or not len(kept.test):
        raise TaskError(
            f"{data.identity.source}: no items are left to train and test on: of {len(data)} items "
            f"{int((~readable).sum())} have no tokens or lie beyond the {model.max_length} tokens of {model.name}"
        )
    types = [item.type for item in data.items]
    control = np.stack([control_labels(types, codes, settings.seed + s) for s in range(settings.seeds)])
    # the solvers sum in float64, which only CPUs and CUDA devices have
    device = model.device if model.device.type == "cuda" else torch.device("cpu")
    return Prepared(data, kept, classes, codes, control, features, blank, int((~readable).sum()), device)


def _codes(data: ProbeData, split: Split, settings: ProbeSettings) -> tuple[Array, tuple[str, ...]]:
    classes = sorted({data.labels[i] for i in split.train})
    if len(classes) < 2:
        raise TaskError(
            f"task {data.task} has only the label {classes[0] if classes else 'none'!r} in the training items of "
            f"{data.identity.source}; a probe needs two classes: use more data (--limit, --train)"
        )
    if len(classes) > MAX_CLASSES and settings.probe != "knn":
        raise TaskError(
            f"task {data.task} has {len(classes):,} classes, too many for a {settings.probe} probe (at most "
            f"{MAX_CLASSES:,}); use --probe knn, or a coarser label"
        )
    number = {name: k for k, name in enumerate(classes)}
    return np.array([number.get(label, -1) for label in data.labels]), tuple(classes)


def _features(model: LoadedModel, settings: ProbeSettings, data: ProbeData, progress: bool) -> Features:
    return extract(
        model,
        data.sentences,
        data.places,
        layers="all" if settings.layers is None else settings.layers,
        pool=resolve_pool(settings.pool, model, data.unit),
        what=settings.what,
        stack=settings.stack,
        progress=progress,
    )


def item_rows(
    features: Features,
    layer: int | None,
    data: ProbeData,
    items: Array,
    scaling: Scaling | None = None,
    device: str | torch.device = "cpu",
) -> Rows:
    """Vectors of ``items`` at a layer (``None``: their static embeddings), read as they are needed.

    Two places of an item give both vectors and their product, as a linear probe cannot compare them itself.
    """
    source = features.static if layer is None else features.layer(layer)
    places = data.place_rows[items]

    def read(start: int, stop: int) -> Array:
        return _joined([source[places[start:stop, k]] for k in range(places.shape[1])])

    width = source.shape[1] * (1 if places.shape[1] == 1 else 3)
    known = scaling or scaling_of(read, len(items), width)
    return Rows(read, len(items), width, known, torch.device(device))


def item_matrix(features: Features, layers: Sequence[int], data: ProbeData, items: Array) -> Array:
    """The items' vectors at several layers (item, layer, width), in memory."""
    places = data.place_rows[items]
    found = [_joined([features.layer(n)[places[:, k]] for k in range(places.shape[1])]) for n in layers]
    return np.stack(found, axis=1)


def _joined(vectors: list[Array]) -> Array:
    if len(vectors) == 1:
        return np.asarray(vectors[0], dtype=np.float32)
    return np.concatenate([*vectors, vectors[0] * vectors[1]], axis=1, dtype=np.float32)
