"""Models: assembly of the built-in transformers, and loading of any model from disk or hub."""

from __future__ import annotations

from workbench.models._loaded import Kind, LoadedModel

__all__ = ["Kind", "LoadedModel"]
