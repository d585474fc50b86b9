"""From the name of an objective to the collator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from workbench.errors import ConfigError, did_you_mean
from workbench.text import Role
from workbench.training.objectives._draw import MASK_RATE, Objective, SpecialIds
from workbench.training.objectives.bidirectional import BidirectionalLM
from workbench.training.objectives.causal import CausalLM
from workbench.training.objectives.denoising import Denoising, Noise
from workbench.training.objectives.gap_sentences import GapSentences
from workbench.training.objectives.masked import MaskedLM, MaskUnit
from workbench.training.objectives.sentence_pairs import PairTask, SentencePairs
from workbench.training.objectives.skip_gram import NEGATIVES, SUBSAMPLE, WINDOW, SkipGram
from workbench.training.objectives.span_corruption import PrefixLM, SpanCorruption
from workbench.training.objectives.translation import TranslationPairs
from workbench.training.settings import ObjectiveChoice

__all__ = ["OBJECTIVES", "ObjectiveName", "make_objective", "needs_counts", "role_of"]


class ObjectiveName(StrEnum):
    """What a model can be trained on."""

    CLM = "clm"
    MLM = "mlm"
    WHOLE_WORD = "mlm-whole-word"
    SPAN = "mlm-span"
    SPAN_BOUNDARY = "span-boundary"
    NEXT_SENTENCE = "next-sentence"
    SENTENCE_ORDER = "sentence-order"
    SPAN_CORRUPTION = "span-corruption"
    PREFIX_LM = "prefix-lm"
    DENOISING = "denoising"
    GAP_SENTENCES = "gap-sentences"
    REPLACED_TOKENS = "replaced-tokens"
    TRANSLATION = "translation"
    BIDIRECTIONAL = "bidirectional-lm"
    SKIP_GRAM = "skip-gram"


@dataclass(frozen=True)
class _Recipe:
    role: Role
    about: str
    make: Callable[[SpecialIds, int, ObjectiveChoice, bool], Objective]
    by_frequency: bool = False  # it draws by how often ids stand in the corpus


Value = TypeVar("Value")


def _default(value: Value | None, usual: Value) -> Value:
    """``usual`` where no value is chosen."""
    return usual if value is None else value


def _masked(unit: MaskUnit) -> Callable[[SpecialIds, int, ObjectiveChoice, bool], Objective]:
    return lambda special, length, choice, isolate: MaskedLM(
        special, length, rate=choice.rate or MASK_RATE, unit=unit, isolate_documents=isolate
    )


def _pairs(task: PairTask) -> Callable[[SpecialIds, int, ObjectiveChoice, bool], Objective]:
    return lambda special, length, choice, _: SentencePairs(
        special, length, task=task, rate=choice.rate or MASK_RATE
    )


OBJECTIVES: dict[ObjectiveName, _Recipe] = {
    ObjectiveName.CLM: _Recipe(
        Role.DECODER,
        "causal language model",
        lambda special, length, _, isolate: CausalLM(special, length, isolate_documents=isolate),
    ),
    ObjectiveName.MLM: _Recipe(Role.ENCODER, "masked tokens", _masked(MaskUnit.TOKEN)),
    ObjectiveName.WHOLE_WORD: _Recipe(Role.ENCODER, "masked whole words", _masked(MaskUnit.WORD)),
    ObjectiveName.SPAN: _Recipe(Role.ENCODER, "masked spans (SpanBERT)", _masked(MaskUnit.SPAN)),
    ObjectiveName.SPAN_BOUNDARY: _Recipe(
        Role.ENCODER, "masked spans and their boundaries (SpanBERT)", _masked(MaskUnit.SPAN)
    ),
    ObjectiveName.NEXT_SENTENCE: _Recipe(
        Role.ENCODER, "masked tokens and next sentence (BERT)", _pairs(PairTask.NEXT_SENTENCE)
    ),
    ObjectiveName.SENTENCE_ORDER: _Recipe(
        Role.ENCODER, "masked tokens and sentence order (ALBERT)", _pairs(PairTask.SENTENCE_ORDER)
    ),
    ObjectiveName.SPAN_CORRUPTION: _Recipe(
        Role.SEQ2SEQ,
        "removed spans (T5)",
        lambda special, length, choice, _: SpanCorruption(
            special, length, rate=choice.rate or 0.15, mean_span=choice.mean_span or 3.0
        ),
    ),
    ObjectiveName.PREFIX_LM: _Recipe(
        Role.SEQ2SEQ, "continue a prefix (T5)", lambda special, length, _, __: PrefixLM(special, length)
    ),
    ObjectiveName.DENOISING: _Recipe(
        Role.SEQ2SEQ,
        "repair a damaged text (BART)",
        lambda special, length, choice, _: Denoising(
            special,
            length,
            noise=choice.noise or (Noise.PERMUTATION, Noise.INFILLING),
            rate=choice.rate or 0.3,
            mean_span=choice.mean_span or 3.0,
        ),
    ),
    ObjectiveName.GAP_SENTENCES: _Recipe(
        Role.SEQ2SEQ,
        "removed sentences (Pegasus)",
        lambda special, length, choice, _: GapSentences(special, length, rate=choice.rate or 0.3),
    ),
    ObjectiveName.REPLACED_TOKENS: _Recipe(
        Role.ENCODER, "replaced tokens (ELECTRA)", _masked(MaskUnit.TOKEN)
    ),
    ObjectiveName.TRANSLATION: _Recipe(
        Role.SEQ2SEQ, "targets from sources", lambda special, length, _, __: TranslationPairs(special, length)
    ),
    ObjectiveName.BIDIRECTIONAL: _Recipe(
        Role.DECODER,
        "each token from those before and from those after it (ELMo)",
        lambda special, length, _, __: BidirectionalLM(special, length),
    ),
    ObjectiveName.SKIP_GRAM: _Recipe(
        Role.ENCODER,
        "neighbours from drawn words (word2vec)",
        lambda special, length, choice, _: SkipGram(
            special,
            length,
            window=_default(choice.window, WINDOW),
            negatives=_default(choice.negatives, NEGATIVES),
            subsample=_default(choice.subsample, SUBSAMPLE),
        ),
        by_frequency=True,
    ),
}


def _recipe(name: str) -> _Recipe:
    try:
        return OBJECTIVES[ObjectiveName(name)]
    except ValueError:
        raise ConfigError(
            f"unknown objective {name!r}; {did_you_mean(name, [*map(str, ObjectiveName)])}"
        ) from None


def needs_counts(name: str) -> bool:
    """Whether the objective draws by how often ids stand in the corpus (``SpecialIds.counts``)."""
    return _recipe(name).by_frequency


def role_of(name: str) -> Role:
    """The role of a tokenizer trained for the objective; raises :class:`~workbench.errors.ConfigError`."""
    return _recipe(name).role


def make_objective(
    choice: ObjectiveChoice, special: SpecialIds, length: int, *, isolate_documents: bool = False
) -> Objective:
    """The collator of ``choice`` for rows of ``length`` tokens."""
    return _recipe(choice.name).make(special, length, choice, isolate_documents)
