"""Training objectives: data collators that turn windows of a corpus into model inputs with labels."""

from __future__ import annotations

from workbench.training.objectives._choose import (
    OBJECTIVES,
    ObjectiveName,
    make_objective,
    needs_counts,
    role_of,
)
from workbench.training.objectives._draw import (
    IGNORED,
    MASK_RATE,
    Batch,
    Draw,
    Ids,
    Objective,
    SpecialIds,
    Term,
    terms_of,
)
from workbench.training.objectives.bidirectional import BidirectionalLM
from workbench.training.objectives.causal import CausalLM
from workbench.training.objectives.denoising import Denoising, Noise
from workbench.training.objectives.distillation import DistillationWeights, Distilled
from workbench.training.objectives.gap_sentences import GapSentences
from workbench.training.objectives.masked import MaskedLM, MaskUnit
from workbench.training.objectives.replaced_tokens import ReplacedTokens
from workbench.training.objectives.sentence_pairs import PairTask, SentencePairs
from workbench.training.objectives.skip_gram import SkipGram
from workbench.training.objectives.span_boundary import SpanBoundaries
from workbench.training.objectives.span_corruption import PrefixLM, SpanCorruption
from workbench.training.objectives.translation import TranslationPairs

__all__ = [
    "IGNORED",
    "MASK_RATE",
    "OBJECTIVES",
    "Batch",
    "BidirectionalLM",
    "CausalLM",
    "Denoising",
    "DistillationWeights",
    "Distilled",
    "Draw",
    "GapSentences",
    "Ids",
    "MaskUnit",
    "MaskedLM",
    "Noise",
    "Objective",
    "ObjectiveName",
    "PairTask",
    "PrefixLM",
    "ReplacedTokens",
    "SentencePairs",
    "SkipGram",
    "SpanBoundaries",
    "SpanCorruption",
    "SpecialIds",
    "Term",
    "TranslationPairs",
    "make_objective",
    "needs_counts",
    "role_of",
    "terms_of",
]
