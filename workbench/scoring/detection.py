"""Replaced-token detection: which tokens of a text does ELECTRA's discriminator take for replaced?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from scipy.special import expit, log_expit

from workbench.drawn import Drawn
from workbench.models import Kind, LoadedModel, as_model
from workbench.scoring._requests import Score
from workbench.scoring.masked import MaskedText, padded_inputs, whole_texts
from workbench.scoring.streams import Stream, collect
from workbench.shapes import Array
from workbench.terminal import counted
from workbench.text import Alignment, align
from workbench.trace.padding import together

__all__ = ["Detection", "DetectionEngine", "Detections", "detect_replaced"]

POLICY = (
    "probability of each token, given the whole text, that another one stood there; no likelihood of the text"
)


@dataclass(frozen=True, eq=False, repr=False)
class Detection(Drawn):
    """What a discriminator makes of one text: ``logits`` (token,), above 0 for "replaced"; NaN for special tokens."""

    drawn_by = "detection_view"

    model: str
    alignment: Alignment
    logits: Float[Array, " token"]
    policy: str = POLICY

    @property
    def tokens(self) -> tuple[str, ...]:
        """As the vocabulary spells them, with those that the tokenizer adds around a text."""
        return self.alignment.tokens

    @property
    def replaced(self) -> Float[Array, " token"]:
        """Probability of "replaced", from 0 to 1: the logistic function of the logits."""
        found: Array = expit(self.logits)
        return found

    @property
    def mean_log_original(self) -> float:
        """Mean over the text's tokens of log p("original"), in nats: a score of the sentence, no likelihood of it.

        Each of its terms is a probability of two outcomes, given the token itself, so that they do not multiply to a
        probability of the text. It compares texts under one model.
        """
        return float(np.nanmean(log_expit(-self.logits)))

    def to_frame(self) -> pd.DataFrame:
        """One row a token of the text: position, token, the word it is of, and the probability of "replaced"."""
        numbers = self.alignment.word_ids
        frame = pd.DataFrame(
            {
                "position": range(len(self.tokens)),
                "token": self.tokens,
                "word": [None if n is None else self.alignment.word(n) for n in numbers],
                "replaced": self.replaced,
            }
        )
        return frame.dropna(subset=["replaced"]).reset_index(drop=True)

    def __repr__(self) -> str:
        tokens = counted(int(np.isfinite(self.logits).sum()), "token")
        return f"<Detection of {tokens} in {self.model}: mean log p(original) {self.mean_log_original:.3f}>"


class Detections(list[Detection], Drawn):
    """Those of several texts: a list, with one table and one figure of all of them."""

    drawn_by = "detection_view"

    def to_frame(self) -> pd.DataFrame:
        """The tokens of all texts, one row each, with ``text``, the number of their text, in front."""
        tables = [one.to_frame().assign(text=number) for number, one in enumerate(self)]
        table = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame({"text": []})
        return table[["text", *(column for column in table if column != "text")]]


@dataclass(frozen=True)
class DetectionEngine:
    """Reads texts with a replaced-token detection model: one pass a text, every token judged at once.

    Clark et al. 2020, "ELECTRA", section 2: the discriminator gives ``D(x, t) = sigmoid(w · h_t)`` for each token,
    there the probability of "original"; the released weights, like these models, score "replaced".
    """

    model: LoadedModel
    batch_tokens: str | int = "auto"
    progress: bool = False

    def __post_init__(self) -> None:
        self.model.require(Kind.DETECTOR, verb="replaced-token detection")

    def encode(self, texts: Sequence[str]) -> list[MaskedText]:
        """Ids, segments and words; raises :class:`~workbench.errors.DataError` for texts empty or too long."""
        return whole_texts(self.model, texts)

    def logits(self, texts: Sequence[MaskedText]) -> list[tuple[float, ...]]:
        """Of each text, the logit of "replaced" at every token, special ones included."""
        return collect(self._stream()(texts, frozenset()), len(texts))

    def stream(
        self, texts: Sequence[MaskedText], done: Set[int] = frozenset()
    ) -> Iterator[list[tuple[int, Score]]]:
        """``(text, score)`` batch by batch, whose log-probabilities (nats) are those of "original", token by token."""
        for batch in self._stream()(texts, done):
            yield [(place, _score(texts[place], logits)) for place, logits in batch]

    def _stream(self) -> Stream[MaskedText, tuple[float, ...]]:
        return Stream(self.model, _forward, self.batch_tokens, self.progress)


def detect_replaced(
    model: LoadedModel | str,
    text: str | Sequence[str],
    *,
    batch_tokens: str | int = "auto",
    progress: bool = False,
) -> Detection | Detections:
    """How probable it is, by ELECTRA's discriminator, that each token of a text was replaced.

    Args:
        model: a model of kind "detector", or its name: ``ElectraForPreTraining``, or what ``workbench train
            --objective replaced-tokens`` has made.
        text: a text, or several, for which a list is returned: :class:`Detections`.
        batch_tokens: tokens of one forward pass.
        progress: show a bar.

    Raises:
        ModelError: a model of another kind.
        DataError: a text with no token, or longer than the model reads.

    Example:
        ```python
        import torch
        import workbench
        from workbench.models.configuration import EncoderConfig
        from workbench.models.heads.masked import TransformerEncoderForReplacedTokenDetection
        from workbench.scoring import detect_replaced

        tokenizer = workbench.load("novels-encoder").tokenizer
        torch.manual_seed(0)
        model = TransformerEncoderForReplacedTokenDetection(EncoderConfig(vocab_size=len(tokenizer)))
        found = detect_replaced(workbench.wrap(model, tokenizer), "She was very happy.")
        print(found.to_frame(), found.mean_log_original)
        ```
    """
    loaded = as_model(model)
    texts = [text] if isinstance(text, str) else list(text)
    engine = DetectionEngine(loaded, batch_tokens, progress)
    encoded = engine.encode(texts)
    found = [
        _record(loaded, one, whole, logits)
        for one, whole, logits in zip(texts, encoded, engine.logits(encoded), strict=True)
    ]
    return found[0] if isinstance(text, str) else Detections(found)


def _record(model: LoadedModel, text: str, whole: MaskedText, logits: tuple[float, ...]) -> Detection:
    own = [math.nan if word is None else logit for word, logit in zip(whole.words, logits, strict=True)]
    return Detection(model.name, align(text, model.tokenizer), np.array(own))


def _score(text: MaskedText, logits: tuple[float, ...]) -> Score:
    places = text.places
    ids = tuple(text.ids[place] for place in places)
    original = log_expit(-np.array([logits[place] for place in places]))
    ranks = tuple(1 if logits[place] <= 0 else 2 for place in places)  # of the two outcomes
    return Score(ids, tuple(original.tolist()), (), ranks)


def _forward(model: LoadedModel, batch: list[MaskedText]) -> list[tuple[float, ...]]:
    """Logits of each text; texts that may be padded to one length share a pass."""
    found: dict[int, tuple[float, ...]] = {}
    for places in together(model.model, [text.length for text in batch]):
        chosen = [batch[place] for place in places]
        with model.lock, torch.inference_mode():
            logits = model.model(**padded_inputs(model, chosen)).logits.float().cpu()  # (B, T)
        for row, place in enumerate(places):
            found[place] = tuple(logits[row, : batch[place].length].tolist())
    return [found[place] for place in range(len(batch))]
