"""Pseudo-log-likelihood: each token scored where it is masked (Salazar et al. 2020)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from collections.abc import Sequence as Sequence_
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from workbench.choices import as_members
from workbench.errors import DataError, ModelError, TooLong
from workbench.models import Kind, LoadedModel
from workbench.scoring._forward import project_only, target_statistics
from workbench.scoring._requests import Score, encode_texts
from workbench.scoring.streams import Stream, by_group, collect
from workbench.text import Pieces, split_texts
from workbench.trace.padding import together

__all__ = [
    "MaskedEngine",
    "MaskedRow",
    "MaskedText",
    "Masking",
    "answers_at_masks",
    "padded_inputs",
    "pseudo_log_likelihood",
    "whole_texts",
]

Answer = TypeVar("Answer")


class Masking(StrEnum):
    """What is hidden while a token is scored.

    ``ORIGINAL``: the token alone (Salazar et al. 2020).
    ``WITHIN_WORD``: the token and those after it in the same word, so that the end of a word does not give
    its start away (Kauf & Ivanova 2023).
    """

    ORIGINAL = "original"
    WITHIN_WORD = "within_word_l2r"


@dataclass(frozen=True)
class MaskedRow:
    """A masked copy of a text: its ids with special tokens, the place that is asked about, what stood there."""

    ids: tuple[int, ...]
    segments: tuple[int, ...]
    position: int
    target: int

    @property
    def length(self) -> int:
        """Tokens that the model reads."""
        return len(self.ids)


@dataclass(frozen=True)
class MaskedText:
    """A text's ids with special tokens, its segments, and the word of each place (``None``: special)."""

    ids: tuple[int, ...]
    segments: tuple[int, ...]
    words: tuple[int | None, ...]

    @property
    def length(self) -> int:
        """Tokens that the model reads."""
        return len(self.ids)

    @property
    def places(self) -> tuple[int, ...]:
        """Places of the text's own tokens."""
        return tuple(i for i, word in enumerate(self.words) if word is not None)

    def row(self, position: int, mask: int, masking: Masking) -> MaskedRow:
        """The copy in which ``position`` is scored."""
        ids = list(self.ids)
        last = len(ids) if masking is Masking.WITHIN_WORD else position + 1
        for place in range(position, last):
            if self.words[place] == self.words[position]:
                ids[place] = mask
        return MaskedRow(tuple(ids), self.segments, position, self.ids[position])


@dataclass(frozen=True)
class MaskedEngine:
    """Scores texts with a masked language model. Special tokens stand around a text and are not scored."""

    model: LoadedModel
    masking: Masking | str = Masking.ORIGINAL
    batch_tokens: str | int = "auto"
    progress: bool = False

    def __post_init__(self) -> None:
        self.model.require(Kind.MASKED, verb="pseudo-log-likelihood")
        if self.model.tokenizer.mask_token_id is None:
            raise ModelError(
                f"{self.model.name}: its tokenizer names no mask token, so that no word can be hidden; "
                "add mask_token to tokenizer_config.json"
            )
        as_members(self)

    def encode(self, texts: Sequence_[str]) -> list[MaskedText]:
        """Ids, segments and words; raises :class:`~workbench.errors.DataError` for texts empty or too long."""
        return whole_texts(self.model, texts)

    def rows(self, text: MaskedText, places: Sequence_[int] | None = None) -> list[MaskedRow]:
        """One masked copy for each of ``places`` (all tokens of the text by default)."""
        mask = self.model.mask_id
        masking = Masking(self.masking)
        return [text.row(position, mask, masking) for position in (text.places if places is None else places)]

    def stream_rows(
        self, groups: Sequence_[Sequence_[MaskedRow]], done: Set[int] = frozenset()
    ) -> Iterator[list[tuple[int, Score]]]:
        """``(group, score)`` as soon as all rows of a group are scored; groups in ``done`` may be left out."""
        stream = Stream(self.model, _forward, self.batch_tokens, self.progress)
        for batch in by_group(stream, groups, done):
            yield [(number, _score(groups[number], answers)) for number, answers in batch]

    def score(self, texts: Sequence_[str]) -> list[Score]:
        """Log-probability (nats) of every token of each text, in order."""
        groups = [self.rows(text) for text in self.encode(texts)]
        return collect(self.stream_rows(groups), len(groups))


def whole_texts(model: LoadedModel, texts: Sequence_[str]) -> list[MaskedText]:
    """Texts as an encoder reads them; raises :class:`~workbench.errors.DataError` for texts empty or too long."""
    encode_texts(model.tokenizer, texts)  # refuses what is not Unicode
    split = split_texts(texts, model.tokenizer)
    return [_whole(model, pieces, text) for pieces, text in zip(split, texts, strict=True)]


def _whole(model: LoadedModel, pieces: Pieces, text: str) -> MaskedText:
    if len(pieces.ids) > (longest := model.max_length):
        raise TooLong(
            f"text {text[:40]!r}... has {len(pieces.ids)} tokens; {model.name} reads at most {longest}"
        )
    if all(word is None for word in pieces.words):
        raise DataError(f"text {text[:40]!r} has no token to score")
    return MaskedText(pieces.ids, pieces.segments, pieces.words)


def pseudo_log_likelihood(
    model: LoadedModel,
    texts: Sequence_[str],
    *,
    masking: str = Masking.ORIGINAL,
    batch_tokens: str | int = "auto",
) -> list[Score]:
    """Scores of each text's tokens; their sum is the pseudo-log-likelihood. See :class:`MaskedEngine`.

    Example:
        ```python
        import workbench
        from workbench.scoring import pseudo_log_likelihood

        (found,) = pseudo_log_likelihood(workbench.load("novels-encoder"), ["She was happy."])
        print(found.log_probability)
        ```
    """
    return MaskedEngine(model, masking, batch_tokens).score(texts)


_Answer = tuple[float, int, int]  # log-probability, most likely token, rank


def _score(group: Sequence_[MaskedRow], answers: list[_Answer]) -> Score:
    probabilities, greedy, ranks = zip(*answers, strict=True) if answers else ((), (), ())
    return Score(tuple(row.target for row in group), tuple(probabilities), tuple(greedy), tuple(ranks))


def _forward(model: LoadedModel, batch: list[MaskedRow]) -> list[_Answer]:
    """Answers of rows."""
    return answers_at_masks(
        model,
        batch,
        lambda logits, targets: list(
            zip(*(c.tolist() for c in target_statistics(logits, targets)), strict=True)
        ),
    )


def answers_at_masks(
    model: LoadedModel,
    batch: list[MaskedRow],
    answers: Callable[[Float[Tensor, "N V"], Int[Tensor, " N"]], list[Answer]],
) -> list[Answer]:
    """``answers`` from the logits at each row's asked position; rows that may be padded to one length share a pass."""
    found: dict[int, Answer] = {}
    for places in together(model.model, [row.length for row in batch]):
        logits, targets = _one_pass(model, [batch[place] for place in places])
        found.update(zip(places, answers(logits, targets), strict=True))
    return [found[place] for place in range(len(batch))]


def _one_pass(model: LoadedModel, batch: list[MaskedRow]) -> tuple[Float[Tensor, "N V"], Int[Tensor, " N"]]:
    """The vocabulary projection sees only the asked position of each row."""
    inputs = padded_inputs(model, batch)
    ids = inputs["input_ids"]
    width = ids.shape[1]
    positions = torch.tensor([n * width + r.position for n, r in enumerate(batch)], device=model.device)
    targets = torch.tensor([row.target for row in batch], device=model.device)
    with model.lock, torch.inference_mode(), project_only(model.model, positions, ids.shape) as projected:
        return projected.chosen(model.model(**inputs).logits), targets


def padded_inputs(model: LoadedModel, batch: Sequence_[MaskedRow | MaskedText]) -> dict[str, Tensor]:
    """Ids, mask and, where the model has them, segments: (B, T), padded on the right."""
    width = max(row.length for row in batch)
    padding = model.tokenizer.pad_token_id or 0
    inputs = {
        "input_ids": _padded([row.ids for row in batch], width, padding, model),
        "attention_mask": _padded([(1,) * row.length for row in batch], width, 0, model),
    }
    if getattr(model.config, "type_vocab_size", 0) > 1:
        inputs["token_type_ids"] = _padded([row.segments for row in batch], width, 0, model)
    return inputs


def _padded(rows: list[tuple[int, ...]], width: int, padding: int, model: LoadedModel) -> Int[Tensor, "B T"]:
    return torch.tensor([[*row, *([padding] * (width - len(row)))] for row in rows], device=model.device)
