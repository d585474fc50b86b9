"""Explaining a prediction by scores of the text's tokens, and doubting those scores.

:func:`attribute` runs any method of :data:`METHODS`; a new one is registered there and held to the same
contract tests.
"""

from __future__ import annotations

from workbench.analysis.saliency import _attention, _captum, _gradients, occlusion
from workbench.analysis.saliency._attribute import (
    AttributionWarning,
    attribute,
    attribute_all,
    attribute_targets,
)
from workbench.analysis.saliency._generated import attribute_generated
from workbench.analysis.saliency._methods import METHODS, OcclusionUnit, Raw, SaliencyMethod, SaliencyOptions
from workbench.analysis.saliency._record import Attribution, Normalisation
from workbench.analysis.saliency.attribution_target import Output
from workbench.analysis.saliency.embedding_model import EmbeddingModel

__all__ = [
    "METHODS",
    "Attribution",
    "AttributionWarning",
    "EmbeddingModel",
    "Normalisation",
    "OcclusionUnit",
    "Output",
    "Raw",
    "SaliencyMethod",
    "SaliencyOptions",
    "attribute",
    "attribute_all",
    "attribute_generated",
    "attribute_targets",
]

# importing a module of methods registers them
_REGISTERING = (_attention, _captum, _gradients, occlusion)
