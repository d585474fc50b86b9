"""Features: a model's inner vectors of words, spans and sentences, in a memory-mapped store."""

from __future__ import annotations

from probes.features.capture import SITES
from probes.features.extract import extract, with_random_weights, words_of
from probes.features.policy import POOLS, Policy
from probes.features.store import Features

__all__ = ["POOLS", "SITES", "Features", "Policy", "extract", "with_random_weights", "words_of"]
