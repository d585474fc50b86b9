"""Labels as class numbers, checked."""

from __future__ import annotations

import numpy as np

from workbench.errors import TaskError
from workbench.shapes import Array

__all__ = ["MAX_CLASSES", "encode", "features_of"]

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
