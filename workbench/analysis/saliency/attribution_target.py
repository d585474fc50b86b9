"""What is attributed: a text as a model reads it, and the one number that the model gives it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from workbench.trace.encoding import Encoded

__all__ = ["AttributionTarget", "Output", "TargetEntry", "TargetInput", "TargetSum"]


class Output(StrEnum):
    """In which form a model's output is attributed."""

    LOGIT = "logit"
    LOG_PROBABILITY = "log_probability"  # natural logarithm
    PROBABILITY = "probability"


@dataclass(frozen=True)
class TargetEntry:
    """One entry of an output: ``field`` is "logits", "start_logits" or "end_logits".

    ``position`` counts in what the head reads and is ``None`` where the output has one row a text; ``index``
    is a vocabulary id, a class, or for a span's ends a position.
    """

    index: int
    position: int | None = None
    field: str = "logits"


@dataclass(frozen=True)
class TargetInput:
    """One way to run the model on the text: ``suffix`` is read after it, ``decoder`` by a decoder beside it."""

    suffix: tuple[int, ...] = ()
    decoder: tuple[int, ...] | None = None


@dataclass(frozen=True)
class TargetSum:
    """``weight`` times the sum of ``terms`` of the read number ``read`` (a product of probabilities)."""

    terms: tuple[TargetEntry, ...]
    read: int = 0
    weight: float = 1.0


@dataclass(frozen=True)
class AttributionTarget:
    """One text with its target. Only ``attributed`` tokens get scores: added special tokens and masks do not.

    ``label`` names the target, ``note`` says how it was made of pieces, and ``row`` is the class, token or
    position of a target of one piece.
    """

    encoded: Encoded
    reads: tuple[TargetInput, ...]
    parts: tuple[TargetSum, ...]
    attributed: tuple[bool, ...]
    output: Output
    label: str
    note: str = ""

    @property
    def tokens(self) -> int:
        """Tokens of the text, without what is read after it."""
        return len(self.encoded.alignment)
