"""Run a trainer so that the same corpus always gives the same vocabulary, in every process.

``tokenizers`` walks hash maps whose order differs from process to process. Two trainers let that order show:
WordPiece numbers its "##" characters by it, and equally frequent pairs merge by number; unigram sums and
ranks in it. Both are made canonical here.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from workbench.errors import ConfigError, DataError, WorkbenchError
from workbench.text import _pipelines
from workbench.text._pipelines import SpecialTokenSet, TokenizerKind
from workbench.text.words import checked

if TYPE_CHECKING:
    from tokenizers import Tokenizer, models

__all__ = ["fit"]

PENALTY_STEP = 1e-4  # the unigram trainer's step between the scores of characters that no piece of it uses
SCORE_DIGITS = 6  # sums in another order differ by some 1e-11


def fit(
    kind: TokenizerKind,
    special: SpecialTokenSet,
    texts: Iterable[str],
    *,
    vocab_size: int,
    min_frequency: int,
    lowercase: bool,
) -> Tokenizer:
    """A tokenizer of ``kind`` with a vocabulary of at most ``vocab_size`` learned from ``texts``.

    Raises DataError for an empty corpus or a text that is none, ConfigError if ``vocab_size`` is too small.
    """
    tokenizer = _pipelines.untrained(kind, special, lowercase=lowercase)
    corpus = _nonempty(texts)
    options: dict[str, list[str]] = {}
    if kind is TokenizerKind.WORDPIECE:
        corpus = iter(kept := list(corpus))
        alphabet = _alphabet(kept, tokenizer, limit=(vocab_size - len(special.tokens)) // 2)
        options = {"alphabet": alphabet, "forced": ["##" + char for char in alphabet]}
    trainer = _pipelines.trainer(kind, special, vocab_size=vocab_size, min_frequency=min_frequency, **options)
    try:
        tokenizer.train_from_iterator(corpus, trainer=trainer)
    except WorkbenchError:
        raise
    except Exception as error:  # tokenizers raises the bare Exception
        raise ConfigError(f"cannot learn a vocabulary of {vocab_size}: {error}; raise vocab_size") from error
    return _canonical(kind, tokenizer, special)


def _nonempty(texts: Iterable[str]) -> Iterator[str]:
    """Checked texts; raises at the end if none of them had a visible character."""
    seen = False
    for text in checked(texts):
        seen = seen or bool(text.strip())
        yield text
    if not seen:
        raise DataError("no text to learn a vocabulary from: every text is empty; give at least one sentence")


def _alphabet(texts: Iterable[str], tokenizer: Tokenizer, limit: int) -> list[str]:
    """The most frequent characters after normalisation, in code point order."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(tokenizer.normalizer.normalize_str(text))
    visible = (char for char in counts if not char.isspace())
    ranked = sorted(visible, key=lambda char: (-counts[char], char))
    return sorted(ranked[: max(1, limit)])


def _canonical(kind: TokenizerKind, trained: Tokenizer, special: SpecialTokenSet) -> Tokenizer:
    if kind is TokenizerKind.WORDPIECE:
        # Rebuilt: the trainer took the "##" characters for special tokens, which match inside any text.
        trained.model = _pipelines.wordpiece_model(trained.get_vocab(), special.names["unk_token"])
        return _without_added_tokens(trained, special)
    if kind is TokenizerKind.UNIGRAM:
        trained.model = _ranked_unigram(trained, special)
    return trained


def _without_added_tokens(tokenizer: Tokenizer, special: SpecialTokenSet) -> Tokenizer:
    """The same pipeline with the role's special tokens as its only added tokens."""
    description = json.loads(tokenizer.to_str())
    added = [token for token in description["added_tokens"] if token["content"] in special.tokens]
    return type(tokenizer).from_str(json.dumps({**description, "added_tokens": added}))


def _ranked_unigram(tokenizer: Tokenizer, special: SpecialTokenSet) -> models.Unigram:
    """Scores rounded, ties in code point order; special tokens keep the first ids."""
    from tokenizers import models

    vocabulary = [(piece, score) for piece, score in json.loads(tokenizer.to_str())["model"]["vocab"]]
    first = [(piece, score) for piece, score in vocabulary if piece in special.tokens]
    learned = [(piece, score) for piece, score in vocabulary if piece not in special.tokens]
    floor = min((score for _, score in learned), default=0.0)
    ladder = floor + PENALTY_STEP * (len(learned) + 1)
    scored = [
        (piece, round(floor if len(piece) == 1 and score <= ladder else score, SCORE_DIGITS))
        for piece, score in learned
    ]
    ranked = sorted(scored, key=lambda pair: (-pair[1], pair[0]))
    unknown = [piece for piece, _ in first].index(special.names["unk_token"])
    return models.Unigram(first + ranked, unk_id=unknown)
