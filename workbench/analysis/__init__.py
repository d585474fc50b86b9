"""From traces and scores to statistics with units, labels and standard errors.

Each analysis is a module of its own, imported when first used: ``workbench.analysis.lens``. ``examine`` says how far
a text's saliency scores can be believed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.rooms import lazy_names

_ROOMS = (
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
    "neighbours",
    "neurons",
    "patching",
    "pooling",
    "saliency",
    "survey",
)

__all__ = ["examine", *_ROOMS]

if TYPE_CHECKING:
    from workbench.analysis.faithfulness_examine import examine

__getattr__, __dir__ = lazy_names(__name__, {"examine": f"{__name__}.faithfulness_examine"}, _ROOMS)
