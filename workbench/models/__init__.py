"""Models: assembly of the built-in transformers, and loading of any model from disk or hub."""

from __future__ import annotations

from workbench.models._loaded import Kind, LoadedModel
from workbench.models.loading import as_model, load, load_tokenizer, local_path, wrap
from workbench.models.names import KNOWN_MODELS, KnownModel

__all__ = [
    "KNOWN_MODELS",
    "Kind",
    "KnownModel",
    "LoadedModel",
    "as_model",
    "load",
    "load_tokenizer",
    "local_path",
    "wrap",
]
