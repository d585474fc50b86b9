"""From traces and scores to statistics with units, labels and standard errors.

Each analysis is a module of its own, imported when first used: ``workbench.analysis.lens``.
"""

from __future__ import annotations

from workbench.rooms import lazy_names

__all__ = [
    "attacks",
    "attention",
    "context",
    "dependency",
    "direct",
    "faithfulness",
    "generation",
    "heads",
    "importance",
    "lens",
    "neurons",
    "patching",
    "saliency",
    "survey",
]

__getattr__, __dir__ = lazy_names(__name__, {}, __all__)
