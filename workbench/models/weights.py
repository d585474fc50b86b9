"""Which weights a model has: a digest of the files that they come from, or of the weights themselves."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch

from workbench.models.dispatched import value_of

__all__ = ["content_hash", "hash_of", "remember_files"]

# The digest of a module's weights, and the number of changes in place that they had seen by then.
_known: WeakKeyDictionary[Any, tuple[int, str]] = WeakKeyDictionary()


def remember_files(model: Any, digest: str) -> None:
    """``model`` holds, as it is now, the weights of files whose SHA-256 is ``digest``."""
    _known[model] = (_changes(model), digest)


def hash_of(model: Any) -> str:
    """The digest of the files that the weights of ``model`` were loaded from, or else of the weights.

    Weights that were changed in place after loading, by an optimiser for example, are no longer those of the
    files. Computed once for each state.
    """
    changes, digest = _known.get(model, (-1, ""))
    if changes != _changes(model):
        remember_files(model, digest := _of_weights(model))
    return digest


def _changes(model: Any) -> int:
    """Of what is in memory: accelerate makes offloaded weights anew in each pass, from values that nobody changes."""
    return sum(t._version for t in model.state_dict(keep_vars=True).values() if not t.is_meta)


def _of_weights(model: Any) -> str:
    """SHA-256 over names, types, shapes and bytes, in order of the names."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        flat = value_of(model, name, tensor).detach().cpu().contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest()


def content_hash(files: Iterable[Path]) -> str:
    """SHA-256 over the bytes of ``files`` in name order."""
    digest = hashlib.sha256()
    for file in sorted(files):
        with file.open("rb") as stream:
            while block := stream.read(1 << 22):
                digest.update(block)
    return digest.hexdigest()
