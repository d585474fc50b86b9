"""Models: assembly of the built-in transformers, and loading of any model from disk or hub."""

from __future__ import annotations

from workbench.models._loaded import Kind, LoadedModel
from workbench.models.functions import TextFunction
from workbench.models.loading import load, load_tokenizer, local_path
from workbench.models.names import KNOWN_MODELS, KnownModel
from workbench.models.shared_base import load_adapters
from workbench.models.wrapping import as_model, as_subject, prompted, wrap

__all__ = [
    "KNOWN_MODELS",
    "Kind",
    "KnownModel",
    "LoadedModel",
    "TextFunction",
    "as_model",
    "as_subject",
    "load",
    "load_adapters",
    "load_tokenizer",
    "local_path",
    "prompted",
    "wrap",
]
