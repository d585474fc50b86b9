"""Surprisal of each token and word of a text, in bits: ``workbench.surprisal``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float

from workbench.drawn import Drawn
from workbench.errors import DataError
from workbench.models import Kind, LoadedModel, as_model
from workbench.scoring._requests import Request, Score, encode_texts
from workbench.scoring.engine import Engine
from workbench.scoring.masked import MaskedEngine
from workbench.shapes import Array
from workbench.terminal import counted
from workbench.text import Alignment, align

__all__ = ["Surprisal", "surprisal"]


@dataclass(frozen=True, eq=False, repr=False)
class Surprisal(Drawn):
    """Surprisal of one text's tokens, ``-log2 p(token | ...)`` in bits; NaN for a token that nothing predicts.

    ``policy`` says what each token is predicted from.
    """

    drawn_by = "surprisal_view"

    model: str
    policy: str
    alignment: Alignment
    bits: Float[Array, " token"]

    @property
    def tokens(self) -> tuple[str, ...]:
        """As the vocabulary spells them."""
        return self.alignment.tokens

    @property
    def total(self) -> float:
        """Bits of the whole text, tokens that nothing predicts left out."""
        return float(np.nansum(self.bits))

    def words(self) -> pd.DataFrame:
        """One row a word: the sum of the surprisals of its tokens (the chain rule)."""
        frame = self.to_frame().dropna(subset=["word_number"])
        grouped = frame.groupby("word_number", sort=True)
        return grouped.agg(
            word=("word", "first"), tokens=("token", "size"), bits=("bits", _sum)
        ).reset_index()

    def to_frame(self) -> pd.DataFrame:
        """One row a token: position, token, the word it is of, bits."""
        numbers = self.alignment.word_ids
        return pd.DataFrame(
            {
                "position": range(len(self.tokens)),
                "token": self.tokens,
                "word_number": pd.array(list(numbers), dtype="Int64"),
                "word": [None if n is None else self.alignment.word(n) for n in numbers],
                "bits": self.bits,
            }
        )

    def __repr__(self) -> str:
        tokens = counted(len(self.tokens), "token")
        return f"<Surprisal of {tokens} in {self.model}: {self.total:.2f} bits, {self.policy}>"


def _sum(bits: pd.Series[float]) -> float:
    return float(bits.sum(min_count=1))


def surprisal(
    model: LoadedModel | str,
    text: str | Sequence[str],
    *,
    first_token: str = "auto",
    masking: str = "original",
) -> Surprisal | list[Surprisal]:
    """How many bits each token of a text carries: ``-log2 p``; see :class:`Surprisal`.

    A causal model predicts each token from those before it, and the first one as ``first_token`` says (see
    :class:`~workbench.scoring.FirstToken`). A masked model predicts each from both sides
    (:func:`~workbench.scoring.pseudo_log_likelihood`), which is no surprisal of a reader.

    Args:
        model: a causal or masked language model, or its name.
        text: a text, or several, for which a list is returned.
        first_token: what the first token is predicted from; "unscored" leaves it out.
        masking: of masked models: "original", or "within_word_l2r" (Kauf and Ivanova 2023).

    Raises:
        ModelError: a model of another kind.
        DataError: a text with no token to score, or longer than the model reads.

    Example:
        ```python
        import workbench

        found = workbench.surprisal("novels-decoder", "She was very happy.")
        print(found.words())
        ```
    """
    model = as_model(model)
    model.require(Kind.CAUSAL, Kind.MASKED, verb="surprisal")
    texts = [text] if isinstance(text, str) else list(text)
    if model.kind is Kind.MASKED:
        scores, policy = MaskedEngine(model, masking).score(texts), f"each from both sides, masking {masking}"
    else:
        engine = Engine(model, first_token)
        _check_lengths(model, texts)
        scores, policy = engine.score([Request("", one) for one in texts]), f"first token: {engine.policy}"
    found = [_record(model, policy, one, score) for one, score in zip(texts, scores, strict=True)]
    return found[0] if isinstance(text, str) else found


def _check_lengths(model: LoadedModel, texts: Sequence[str]) -> None:
    """A text that loses its beginning would have other tokens than it seems."""
    for text, ids in zip(texts, encode_texts(model.tokenizer, texts), strict=True):
        if len(ids) > model.max_length:
            raise DataError(
                f"text {text[:40]!r}... has {counted(len(ids), 'token')}; {model.name} reads "
                f"{model.max_length:,}: shorten it, or score it in windows with workbench.scoring.score_rolling"
            )


def _record(model: LoadedModel, policy: str, text: str, score: Score) -> Surprisal:
    alignment = align(text, model.tokenizer, add_special_tokens=False)
    bits = np.full(len(alignment), math.nan)
    scored = len(score.token_ids)
    assert alignment.ids[len(alignment) - scored :] == score.token_ids, "scored tokens are the text's last"
    bits[len(alignment) - scored :] = -np.array(score.token_log_probabilities) / math.log(2)
    return Surprisal(model.name, policy, alignment, bits)
