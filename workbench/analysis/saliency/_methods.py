"""What a saliency method is, its options, and the registry of all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from torch import Tensor

from workbench.analysis.saliency.embedding_model import EmbeddingModel
from workbench.records import check_fields
from workbench.registry import Registry

__all__ = ["METHODS", "Compute", "OcclusionUnit", "Raw", "SaliencyMethod", "SaliencyOptions"]


class OcclusionUnit(StrEnum):
    """What is taken out at once by methods that take parts of a text out."""

    TOKEN = "token"
    WORD = "word"
    SPAN = "span"  # a sliding window of words
    SENTENCE = "sentence"


@dataclass(frozen=True, kw_only=True)
class SaliencyOptions:
    """The options of a method. ``None`` means: as many as are needed, or the method's own default."""

    steps: int | None = None  # integrated gradients: exactly so many, else raised until ``tolerance`` holds
    tolerance: float = 0.05  # completeness error, relative to the difference that the scores explain
    most_steps: int = 1024
    samples: int | None = None  # of methods that draw; kernel_shap tries all subsets where they are no more
    noise: float = 0.15  # standard deviation of noise, as a share of that of the text's embeddings
    unit: OcclusionUnit = OcclusionUnit.TOKEN
    span: int = 3  # words in a window
    layer: int | None = None  # of layer methods, from 0; the middle one by default
    keep_first: bool = False  # a decoder's attention sink stays in every baseline and gets no score
    seed: int = 0
    batch_tokens: int = 2048  # tokens in one forward pass: bounds memory, does not change scores

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class Raw:
    """What a method gives for a batch: scores (B, T), and steps or samples taken for each question.

    ``ends`` are the target's values at each baseline and text, where the method came to know them.
    """

    scores: Tensor
    steps: tuple[int | None, ...]
    layer: int | None = None
    ends: tuple[tuple[float, float], ...] | None = None


Compute: TypeAlias = Callable[[EmbeddingModel, SaliencyOptions], Raw]


@dataclass(frozen=True, kw_only=True)
class SaliencyMethod:
    """A way to score tokens, with what it promises; the contract tests hold it to that.

    ``compute`` sees the model only through a :class:`EmbeddingModel`. ``passes`` tells how many forward passes (a
    backward pass counts as two) a text of so many tokens takes. ``inside`` methods read layers or attention,
    so they score all tokens; ``additive`` scores are meant to sum to the difference from the baseline and
    have their error reported, ``complete`` ones promise it; ``unused_is_zero`` ones give exactly 0 to a token
    that cannot change the target.
    """

    name: str
    compute: Compute
    convention: str  # what a score means
    source: str  # the paper, with section or equation
    passes: Callable[[int, SaliencyOptions], int]
    signed: bool = True
    additive: bool = False
    complete: bool = False
    uses_baseline: bool = False
    unused_is_zero: bool = True
    seeded: bool = False
    inside: bool = False
    answers_only: bool = (
        False  # sees only the target's values of texts with parts taken out: functions will do
    )
    blind: bool = False  # does not look at the model: the floor


METHODS: Registry[SaliencyMethod] = Registry("saliency method")
