"""Surprisal of each token and word of a text, in bits: ``workbench.surprisal``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from workbench.choices import member
from workbench.drawn import Drawn
from workbench.errors import ConfigError, DataError, ModelError
from workbench.models import Kind, LoadedModel, as_model
from workbench.models.measured import takes_order
from workbench.records import takes_fields_of
from workbench.scoring._forward import in_rows, scored_logits, target_statistics
from workbench.scoring._requests import Request, chat_ids, encode_texts
from workbench.scoring._requests import Sequence as TokenSequence
from workbench.scoring.engine import Engine
from workbench.scoring.masked import MaskedEngine, MaskedRow, answers_at_masks
from workbench.scoring.permutation import PermutationEngine, ordered_logits
from workbench.scoring.streams import Stream, by_group, collect
from workbench.shapes import Array
from workbench.terminal import counted
from workbench.text import Alignment, PromptFormat, align

__all__ = ["Surprisal", "Surprisals", "WordBoundary", "surprisal"]

_LN2 = math.log(2)
# How vocabularies spell the white space that a token begins with.
_SPACES = ("Ġ", "▁", " ", "Ċ", "ĉ", "č", "\n", "\t", "\r", "<0x0A>", "<0x09>", "<0x0D>")


class WordBoundary(StrEnum):
    """To which word the white space between two words counts.

    ``LEADING``: to the word after it, whose first token begins with it; a word's bits are the sum over its tokens.
    ``TRAILING``: to the word before it, so that a word's probability says that it ends there: Pimentel & Meister
    (2024) divide by the probability of a word's beginning where it begins and multiply with that of the next one's
    where it ends; Oh & Schuler (2024) call it whitespace-trailing decoding. Words are what white space separates, so
    punctuation stays with its word; EOS ends a word too. Only for vocabularies that mark where words begin.
    """

    LEADING = "leading"
    TRAILING = "trailing"


@dataclass(frozen=True, eq=False, repr=False)
class Surprisal(Drawn):
    """Surprisal of one text's tokens, ``-log2 p(token | ...)`` in bits; NaN for a token that nothing predicts.

    ``entropy`` (bits) is that of the distribution the token is drawn from, before it is seen, and ``rank`` the token's
    place in it, from 1. ``space`` (token + 1), of :attr:`WordBoundary.TRAILING` alone, is the surprisal in bits of a
    word's beginning (or EOS) at each place, the one behind the text included. ``policy`` says what each token is
    predicted from.
    """

    drawn_by = "surprisal_view"

    model: str
    policy: str
    alignment: Alignment
    bits: Float[Array, " token"]
    entropy: Float[Array, " token"]
    rank: Float[Array, " token"]
    space: Float[Array, " place"] | None = None
    starts: Bool[Array, " token"] | None = None

    @property
    def tokens(self) -> tuple[str, ...]:
        """As the vocabulary spells them."""
        return self.alignment.tokens

    @property
    def total(self) -> float:
        """Bits of the whole text, tokens that nothing predicts left out."""
        return float(np.nansum(self.bits))

    def words(self) -> pd.DataFrame:
        """One row a word: its surprisal in bits and nats, entropy and rank at its first token, tokens, characters.

        The surprisal is the sum over its tokens (the chain rule), or what :class:`WordBoundary` makes of it. Tokens of
        white space alone (line breaks, some blanks) are of no word.
        """
        frame = self.to_frame().dropna(subset=["word_number"])
        grouped = frame.groupby("word_number", sort=True)
        first = grouped["position"].min().to_numpy(int)
        bits = grouped["bits"].sum(min_count=1).to_numpy(float)
        if self.space is not None and self.starts is not None:
            last = grouped["position"].max().to_numpy(int)
            bits = bits + self.space[last + 1] - np.where(self.starts[first], self.space[first], 0.0)
        numbers = [int(number) for number in frame["word_number"].drop_duplicates()]
        spans = [self.alignment.words[number] for number in numbers]
        return pd.DataFrame(
            {
                "word_number": pd.Series(numbers, dtype="Int64"),
                "word": [self.alignment.word(number) for number in numbers],
                "tokens": grouped.size().to_numpy(),
                "bits": bits,
                "nats": bits * _LN2,
                "entropy": self.entropy[first],
                "rank": pd.Series(self.rank[first]).astype("Int64"),
                "start": [start for start, _ in spans],
                "characters": [end - start for start, end in spans],
            }
        )

    def to_frame(self) -> pd.DataFrame:
        """One row a token: position, token, the word it is of, bits, entropy (bits) and rank."""
        numbers = self.alignment.word_ids
        return pd.DataFrame(
            {
                "position": range(len(self.tokens)),
                "token": self.tokens,
                "word_number": pd.array(list(numbers), dtype="Int64"),
                "word": [None if n is None else self.alignment.word(n) for n in numbers],
                "bits": self.bits,
                "entropy": self.entropy,
                "rank": pd.Series(self.rank).astype("Int64"),
            }
        )

    def __repr__(self) -> str:
        tokens = counted(len(self.tokens), "token")
        return f"<Surprisal of {tokens} in {self.model}: {self.total:.2f} bits, {self.policy}>"


class Surprisals(list[Surprisal], Drawn):
    """Those of several texts: a list, with one table and one figure of all of them.

    Example:
        ```python
        import workbench

        found = workbench.surprisal("novels-decoder", ["She was happy.", "He left."])
        print(found.to_frame())
        found.figure().save("surprisal.html")
        ```
    """

    drawn_by = "surprisal_view"

    def to_frame(self) -> pd.DataFrame:
        """The words of all texts, one row each, with ``text``, the number of their text, in front."""
        tables = [one.words().assign(text=number) for number, one in enumerate(self)]
        table = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame({"text": []})
        return table[["text", *(column for column in table if column != "text")]]


@takes_fields_of(PromptFormat)
def surprisal(
    model: LoadedModel | str,
    text: str | Sequence[str],
    *,
    first_token: str = "auto",
    masking: str = "original",
    word_boundary: str = "leading",
    batch_tokens: str | int = "auto",
    progress: bool = False,
    **prompt: Any,
) -> Surprisal | Surprisals:
    """How many bits each token of a text carries: ``-log2 p``; see :class:`Surprisal`.

    A causal model predicts each token from those before it, and the first one as ``first_token`` says (see
    :class:`~workbench.scoring.FirstToken`). A masked model predicts each from both sides
    (:func:`~workbench.scoring.pseudo_log_likelihood`), which is no surprisal of a reader. XLNet, which predicts in any
    order, does so in that of the text.

    Args:
        model: a causal or masked language model, or its name.
        text: a text, or several, for which a list is returned: :class:`Surprisals`.
        first_token: what the first token is predicted from; "unscored" leaves it out.
        masking: of masked models: "original", or "within_word_l2r" (Kauf and Ivanova 2023).
        word_boundary: of causal models: whether the white space between words counts to the word after it ("leading")
            or before it ("trailing", see :class:`WordBoundary`).
        batch_tokens: tokens of one forward pass.
        progress: show a bar.
        **prompt: how the model reads the text: fields of :class:`~workbench.text.PromptFormat`. In ``chat`` format the
            text is a user message, whose own tokens are scored.

    Raises:
        ModelError: a model of another kind, or a vocabulary that does not mark words for "trailing".
        DataError: a text with no token to score, or longer than the model reads.

    Example:
        ```python
        import workbench

        found = workbench.surprisal("novels-decoder", "She was very happy.")
        print(found.words())
        ```
    """
    model = as_model(model, **prompt)
    boundary = member(WordBoundary, word_boundary, "word boundary", ConfigError)
    texts = [text] if isinstance(text, str) else list(text)
    if model.kind is Kind.ENCODER and takes_order(model.model):
        if boundary is WordBoundary.TRAILING:
            raise ConfigError("word_boundary 'trailing' is of causal models; leave it out for XLNet")
        found = _ordered(PermutationEngine(model, first_token, batch_tokens, progress), texts)
        return found[0] if isinstance(text, str) else Surprisals(found)
    model.require(Kind.CAUSAL, Kind.MASKED, verb="surprisal")
    if model.kind is Kind.MASKED:
        if boundary is WordBoundary.TRAILING:
            raise ConfigError("word_boundary 'trailing' is of causal models; a masked model sees both sides")
        found = _masked(MaskedEngine(model, masking, batch_tokens, progress), texts)
    else:
        found = _causal(Engine(model, first_token, batch_tokens, progress), texts, boundary)
    return found[0] if isinstance(text, str) else Surprisals(found)


# of one token: log-probability, entropy, log-probability of a word's beginning (nats), rank
_Reading = tuple[float, float, float, int]
_Readings = Callable[[Tensor, Tensor, Tensor | None], list[_Reading]]


def _readings(begins: Tensor | None) -> _Readings:
    """Reads rows of logits; ``begins`` (V,) marks the tokens that begin a word."""

    def entropy(scores: Tensor) -> Tensor:
        logs = scores.log_softmax(1)
        return -(logs.exp() * logs).nan_to_num(0.0).sum(1)  # 0 log 0 is 0

    def space(scores: Tensor) -> Tensor:
        return scores.log_softmax(1)[:, begins].logsumexp(1)

    def read(logits: Tensor, targets: Tensor, exact: Tensor | None = None) -> list[_Reading]:
        log_probabilities, _, ranks = target_statistics(logits, targets, exact=exact)
        spaces = log_probabilities if begins is None else in_rows(logits, space)
        columns = (log_probabilities, in_rows(logits, entropy), spaces, ranks)
        return list(zip(*(column.tolist() for column in columns), strict=True))

    return read


def _causal(engine: Engine, texts: list[str], boundary: WordBoundary) -> list[Surprisal]:
    model, trailing = engine.model, boundary is WordBoundary.TRAILING
    _check_lengths(model, texts, room=model.max_length - trailing)
    if model.prompt.chat:
        sequences = [TokenSequence(chat_ids(model, one), 1) for one in texts]
    else:
        sequences = engine.encode([Request("", one) for one in texts])
    begins = _begins(model) if trailing else None
    if trailing:  # one place more: behind the text
        sequences = [replace(one, ids=(*one.ids, _end_of_text(model))) for one in sequences]
    read = _readings(begins)

    def forward(model: LoadedModel, batch: list[TokenSequence]) -> list[list[_Reading]]:
        rows = iter(read(*scored_logits(model, batch)))
        return [[next(rows) for _ in range(one.targets)] for one in batch]

    stream = Stream(model, forward, engine.batch_tokens, engine.progress)
    rows = collect(stream(sequences, frozenset()), len(sequences))
    policy = "in chat format" if model.prompt.chat else f"first token: {engine.policy}"
    policy += f", white space {boundary}" if trailing else ""
    return [_record(model, policy, *of_text, begins) for of_text in zip(texts, rows, strict=True)]


def _masked(engine: MaskedEngine, texts: list[str]) -> list[Surprisal]:
    groups = [engine.rows(text) for text in engine.encode(texts)]
    read = _readings(None)

    def forward(model: LoadedModel, batch: list[MaskedRow]) -> list[_Reading]:
        return answers_at_masks(model, batch, lambda logits, targets: read(logits, targets, None))

    stream = Stream(engine.model, forward, engine.batch_tokens, engine.progress)
    rows = collect(by_group(stream, groups, frozenset()), len(groups))
    policy = f"each from both sides, masking {engine.masking}"
    return [
        _record(engine.model, policy, text, of_text, None) for text, of_text in zip(texts, rows, strict=True)
    ]


def _ordered(engine: PermutationEngine, texts: list[str]) -> list[Surprisal]:
    read = _readings(None)

    def forward(model: LoadedModel, batch: list[TokenSequence]) -> list[list[_Reading]]:
        rows = iter(read(*ordered_logits(model, batch), None))
        return [[next(rows) for _ in range(one.targets)] for one in batch]

    sequences = engine.encode(texts)
    stream = Stream(engine.model, forward, engine.batch_tokens, engine.progress)
    rows = collect(stream(sequences, frozenset()), len(sequences))
    policy = f"first token: {engine.policy}, in the order of the text"
    return [_record(engine.model, policy, *of_text, None) for of_text in zip(texts, rows, strict=True)]


def _check_lengths(model: LoadedModel, texts: Sequence[str], room: int) -> None:
    """A text that loses its beginning would have other tokens than it seems."""
    chat = model.prompt.chat
    all_ids = [chat_ids(model, text) for text in texts] if chat else encode_texts(model.tokenizer, texts)
    for text, ids in zip(texts, all_ids, strict=True):
        if len(ids) > room:
            raise DataError(
                f"text {text[:40]!r}... has {counted(len(ids), 'token')}; {model.name} reads "
                f"{room:,}: shorten it, or score it in windows with workbench.scoring.score_rolling"
            )


def _begins(model: LoadedModel) -> Bool[Tensor, " V"]:
    """Which tokens begin a word, or end the text; raises :class:`ModelError` if the vocabulary does not mark them."""
    found = [number for piece, number in model.tokenizer.get_vocab().items() if piece.startswith(_SPACES)]
    if not found:
        raise ModelError(
            f"{model.name}: no token of its vocabulary begins with white space, so word_boundary 'trailing' has "
            "no meaning; use 'leading'"
        )
    size = int(model.config.get_text_config().vocab_size)
    begins = torch.zeros(size, dtype=torch.bool, device=model.device)
    begins[[*found, _end_of_text(model)]] = True
    return begins


def _end_of_text(model: LoadedModel) -> int:
    end: Any = model.tokenizer.eos_token_id
    if end is None:
        raise ModelError(f"{model.name}: its tokenizer has no EOS, which ends a word too; use 'leading'")
    return int(end)


def _record(
    model: LoadedModel, policy: str, text: str, rows: list[_Reading], begins: Tensor | None
) -> Surprisal:
    chat = model.prompt.chat
    alignment = model.read(text) if chat else align(text, model.tokenizer, add_special_tokens=False)
    places = len(alignment) + (begins is not None)
    columns = np.full((4, places), math.nan)
    columns[:, places - len(rows) :] = np.array(rows, dtype=float).T
    if chat:  # the template's tokens are no part of the text
        of_words = [place for place, word in enumerate(alignment.word_ids) if word is not None]
        outside = np.ones(places, dtype=bool)
        outside[min(of_words, default=0) : max(of_words, default=-1) + 1] = False
        for row in (0, 1, 3):
            columns[row, outside] = math.nan
    bits, entropy, space, rank = columns
    own = slice(len(alignment))
    return Surprisal(
        model.name,
        policy,
        alignment,
        -bits[own] / _LN2,
        entropy[own] / _LN2,
        rank[own],
        None if begins is None else -space / _LN2,
        None if begins is None else begins.cpu().numpy()[list(alignment.ids)],
    )
