"""What objectives take, a window of the corpus and its own number, and the terms of the loss that they give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn import functional as F

from workbench.errors import ConfigError
from workbench.models.ancestors.elmo import neighbour_labels
from workbench.text import sentinel_ids

__all__ = [
    "IGNORED",
    "MASK_RATE",
    "Batch",
    "Draw",
    "Ids",
    "Objective",
    "SpecialIds",
    "Term",
    "pad_rows",
    "pair_term",
    "sentence_parts",
    "terms_of",
    "token_places",
    "token_term",
    "weighted_loss",
]

IGNORED = -100  # label of a position that is not scored
MASK_RATE = 0.15  # Devlin et al. 2019, section 3.1
Ids = Int[np.ndarray, " token"]
Batch = dict[str, Tensor]


@dataclass(frozen=True)
class Draw:
    """One window of the corpus.

    ``sentences`` and ``documents`` are indices into ``ids`` where one starts; ``spare()`` gives another window
    from elsewhere; ``rng`` makes a generator that depends on the run's seed and this draw only, so that batches
    are the same however they are split over processes, and after a restart.
    """

    ids: Ids
    sentences: Ids
    documents: Ids
    seed: tuple[int, ...] = (0, 0)
    spare: Callable[[], Draw] | None = None

    def rng(self) -> np.random.Generator:
        """A fresh generator; two calls give the same numbers."""
        return np.random.default_rng(self.seed)


class Objective(Protocol):
    """Turns draws into a batch of model inputs with labels; a data collator for transformers' Trainer."""

    auto: str  # Auto class of the model that it trains

    @property
    def window(self) -> int:
        """How many ids of the corpus one example is made of."""

    def __call__(self, draws: Sequence[Draw]) -> Batch:
        """The batch."""


@dataclass(frozen=True)
class SpecialIds:
    """Ids with a meaning, and the vocabulary they belong to; those a tokenizer lacks are ``None``.

    ``counts`` (V,): how often each id stands in the corpus, for objectives that draw by it.
    """

    vocab_size: int
    pad: int = 0
    bos: int | None = None
    eos: int | None = None
    cls: int | None = None
    sep: int | None = None
    mask: int | None = None
    sentinels: tuple[int, ...] = ()
    reserved: frozenset[int] = frozenset()
    pieces: tuple[str, ...] = ()  # spelling of each id, for what counts as the start of a word
    counts: Ids | None = None

    @classmethod
    def of(cls, tokenizer: Any) -> SpecialIds:
        """Those of a transformers tokenizer."""
        pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
        return cls(
            vocab_size=len(tokenizer),
            pad=pad or 0,
            bos=tokenizer.bos_token_id,
            eos=tokenizer.eos_token_id,
            cls=tokenizer.cls_token_id,
            sep=tokenizer.sep_token_id,
            mask=tokenizer.mask_token_id,
            sentinels=sentinel_ids(tokenizer),
            reserved=frozenset(tokenizer.all_special_ids),
            pieces=tuple(map(str, tokenizer.convert_ids_to_tokens(range(len(tokenizer))))),
        )

    def need(self, name: str, objective: str) -> int:
        """The id called ``name``; raises :class:`~workbench.errors.ConfigError` if there is none."""
        value = getattr(self, name)
        if value is None:
            raise ConfigError(
                f"objective {objective} needs a tokenizer with a {name} token; train one with --tokenizer "
                "wordpiece, or name a folder that has it"
            )
        return int(value)

    @cached_property
    def ordinary(self) -> Ids:
        """Ids that may replace others: all but the special ones."""
        return np.setdiff1d(
            np.arange(self.vocab_size), np.fromiter(self.reserved, np.int64, len(self.reserved))
        )

    @cached_property
    def opens_word(self) -> Bool[np.ndarray, " vocabulary"]:
        """Whether each piece starts a word, from the marks that sub-word vocabularies use."""
        if any(piece.startswith("##") for piece in self.pieces):
            return np.array([not piece.startswith("##") for piece in self.pieces])
        if any(piece.startswith(("▁", "Ġ")) for piece in self.pieces):
            return np.array(
                [piece.startswith(("▁", "Ġ")) or not piece[:1].isalnum() for piece in self.pieces]
            )
        return np.ones(self.vocab_size, dtype=bool)


def pad_rows(rows: Sequence[Ids], value: int, length: int | None = None) -> Tensor:
    """Rows side by side as (B, T), filled with ``value`` on the right up to the longest or to ``length``."""
    width = length or max(len(row) for row in rows)
    padded = np.full((len(rows), width), value, dtype=np.int64)
    for index, row in enumerate(rows):
        padded[index, : len(row)] = row
    return torch.from_numpy(padded)


def token_places(input_ids: Tensor, attention_mask: Tensor | None) -> Tensor:
    """Places that are no padding, (B, T)."""
    return (torch.ones_like(input_ids) if attention_mask is None else attention_mask) != 0


def sentence_parts(draw: Draw) -> list[Ids]:
    """The draw's ids split at its sentences."""
    return [part for part in np.split(draw.ids, draw.sentences) if len(part)]


@dataclass(frozen=True)
class Term:
    """One part: its losses (B, T) in nats, at which of these places it is scored, and where it was right.

    ``weight`` is what the mean over scored places counts for in the objective's loss. ``name`` is empty for an
    objective of one part. ``is_tokens``: it predicts tokens, so that its loss has a perplexity.
    """

    name: str
    weight: float
    losses: Tensor
    scored: Tensor
    right: Tensor | None = None
    is_tokens: bool = False


def weighted_loss(
    terms: Sequence[Term], counts: Tensor | None = None, auxiliary: Tensor | None = None
) -> Tensor:
    """Sum over terms of weight times mean loss over scored places.

    ``counts`` (term,) are the scored places of all batches that a step is made of, whose losses then add up to the
    step's; by default the batch stands alone. ``auxiliary`` is what a model adds to its loss in training.
    """
    totals = [term.scored.sum() for term in terms] if counts is None else counts.reshape(-1, len(terms))[0]
    sums = [
        term.weight
        * term.losses[term.scored].sum()
        / total.clamp(min=1)  # a term without places adds nothing
        for term, total in zip(terms, totals, strict=True)
    ]
    if auxiliary is not None:
        sums.append(auxiliary * terms[0].scored.sum() / totals[0].clamp(min=1))
    return torch.stack(sums).sum()


def token_term(
    logits: Tensor, labels: Tensor, *, name: str = "", weight: float = 1.0, shifted: bool = False
) -> Term:
    """Cross-entropy of tokens: logits (B, T, V), labels (B, T); ``shifted`` where a place predicts the next one."""
    if shifted:
        logits, labels = logits[:, :-1], labels[:, 1:]
    losses = F.cross_entropy(logits.float().transpose(1, 2), labels, ignore_index=IGNORED, reduction="none")
    return Term(name, weight, losses, labels != IGNORED, logits.argmax(-1) == labels, is_tokens=True)


def pair_term(logits: Tensor, labels: Tensor) -> Term:
    """Cross-entropy of the label of a pair of texts: logits (B, 2), labels (B,)."""
    losses = F.cross_entropy(logits.float(), labels, reduction="none")[:, None]
    right = (logits.argmax(-1) == labels)[:, None]
    return Term("pair", 1.0, losses, torch.ones_like(right), right)


def terms_of(model: Any, batch: dict[str, Tensor], auto: str) -> list[Term]:
    """The parts of what ``model`` is trained to by an objective of Auto class ``auto``, on one of its batches."""
    if hasattr(model, "terms"):
        found: list[Term] = model.terms(**batch)
        return found
    output, labels = model(**batch), batch["labels"]
    if "negative_ids" in batch:
        above = output.logits[..., 0] > output.logits[..., 1:].amax(-1)
        return [Term("", 1.0, output.losses, labels != IGNORED, above)]
    if "next_sentence_label" in batch:
        pair = pair_term(output.seq_relationship_logits, batch["next_sentence_label"])
        return [token_term(output.prediction_logits, labels, name="masked"), pair]
    if getattr(output, "backward_logits", None) is not None:
        onward, back = neighbour_labels(labels)
        return [
            token_term(output.logits, onward, name="forward"),
            token_term(output.backward_logits, back, name="backward"),
        ]
    return [token_term(output.logits, labels, shifted=auto == "AutoModelForCausalLM")]
