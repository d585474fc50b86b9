"""A recipe's text: its tokenizer, trained or loaded, and the token files, each made once and kept in the cache."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol

from tqdm import tqdm

from workbench.data.corpus_stream import CorpusPiece, corpus_hash, split_sentences, stream_corpus
from workbench.data.corpus_tokens import TokenFile, TokenFileInfo, build_token_file, tokenizer_hash
from workbench.errors import ConfigError
from workbench.folders import cached_folder, folder_by_rename
from workbench.models import load_tokenizer
from workbench.text import Role, TokenizerKind, train_tokenizer
from workbench.text import load_tokenizer as open_tokenizer
from workbench.training.settings import DataSource

__all__ = [
    "HELD_OUT",
    "TRAIN",
    "WHOLE",
    "Corpora",
    "CorpusPart",
    "TokenCorpus",
    "choose_tokenizer",
    "held_out_start",
    "prepare_corpora",
    "token_file",
]

WHOLE, TRAIN, HELD_OUT = "", ", training part", ", held-out part"
FEWEST_HELD_OUT_CHARACTERS = 1024  # characters that are held out of a text of ten times as many or more


@dataclass(frozen=True)
class CorpusPart:
    """A corpus to stream, whole, or one of the parts before and from :func:`held_out_start`."""

    path: str
    sha256: str
    column: str = "text"
    part: str = WHOLE

    def pieces(self) -> Iterator[CorpusPiece]:
        """The part's text; raises :class:`~workbench.errors.DataError` as :func:`stream_corpus` does."""
        pieces = stream_corpus(self.path, self.column)
        if self.part == WHOLE:
            yield from pieces
            return
        border, read = held_out_start(self.path, self.sha256, self.column), 0
        for piece in pieces:
            place = _place(piece.text, border - read)
            read += len(piece.text)
            if self.part == TRAIN and place > 0:
                yield CorpusPiece(piece.text[:place], piece.opens_document)
            if self.part == HELD_OUT and place < len(piece.text):
                yield CorpusPiece(piece.text[place:], piece.opens_document and place == 0)


def _place(text: str, border: int) -> int:
    """Where ``text`` is divided: at the first sentence from ``border`` on, or there if none starts after it."""
    if not 0 < border < len(text):
        return 0 if border <= 0 else len(text)
    starts = accumulate(map(len, split_sentences(text)[:-1]))
    return next((start for start in starts if start >= border), border)


@lru_cache(maxsize=8)
def held_out_start(path: str, sha256: str, column: str) -> int:
    """The character from which on a corpus is held out: its last hundredth, or a little more of a short one.

    ``sha256`` is that of the corpus, by which the count is kept.
    """
    characters = sum(len(piece.text) for piece in stream_corpus(path, column))
    return characters - max(characters // 100, min(FEWEST_HELD_OUT_CHARACTERS, characters // 10))


TOKENIZER_CHARACTERS = 32 << 20  # the vocabulary is learned from the first so many characters

_DEFAULT_KIND = {
    Role.ENCODER: TokenizerKind.WORDPIECE,
    Role.DECODER: TokenizerKind.BYTE_BPE,
    Role.SEQ2SEQ: TokenizerKind.BPE,
}


class TokenCorpus(Protocol):
    """Token ids, whose number is its length, and what they were made from."""

    @property
    def info(self) -> TokenFileInfo:
        """What it holds and what it was made from."""

    def __len__(self) -> int: ...


@dataclass(frozen=True)
class Corpora:
    """What is trained and validated on; ``tokenizer`` is a transformers tokenizer."""

    tokenizer: Any
    train: TokenCorpus
    validation: TokenCorpus

    @property
    def hashes(self) -> tuple[str, ...]:
        """Content of corpus, tokenizer and validation set."""
        return tuple(
            h
            for file in (self.train, self.validation)
            for h in (file.info.corpus_sha256, file.info.tokenizer_sha256)
        )


def prepare_corpora(data: DataSource, role: Role, model: str | None, *, show: bool = False) -> Corpora:
    """Train or load the tokenizer and make the token files; what the cache holds is not made again.

    Without a validation corpus the end of the corpus is held out (:mod:`workbench.training.corpora`); a tokenizer
    is trained on the rest. Raises :class:`~workbench.errors.DataError` for a corpus that cannot be read, and
    :class:`~workbench.errors.ConfigError` for a tokenizer that is none.
    """
    given = CorpusPart(data.corpus, corpus_hash(data.corpus), data.text_column)
    if data.validation is None:
        train, validation = replace(given, part=TRAIN), replace(given, part=HELD_OUT)
    else:
        train, validation = given, replace(given, path=data.validation, sha256=corpus_hash(data.validation))
    key = f"{train.sha256} {data.text_column}{train.part}"
    tokenizer = choose_tokenizer(data, role, model, _texts(train), key)
    files = [token_file(part, tokenizer, role, show=show) for part in (train, validation)]
    return Corpora(tokenizer, *files)


def choose_tokenizer(
    data: DataSource,
    role: Role,
    model: str | None,
    texts: Iterable[str],
    corpus: str,
    *,
    sentinels: int | None = None,
) -> Any:
    """The tokenizer that a recipe names, else that of ``model``, else one trained on ``texts``.

    A trained one is kept in the cache by ``corpus``, which says what the texts are; ``sentinels`` as in
    :func:`~workbench.text.train_tokenizer`. Raises :class:`~workbench.errors.ConfigError` for a name that is none.
    """
    chosen = data.tokenizer
    if chosen is None and model is not None:
        return load_tokenizer(model)
    chosen = chosen or _DEFAULT_KIND[role]
    if chosen in list(TokenizerKind):
        kind = TokenizerKind(chosen)
        size = None if kind is TokenizerKind.BYTES else data.vocab_size
        key = f"3 {corpus} {kind} {role} {size} {sentinels}"
        return _kept(key, lambda: train_tokenizer(texts, kind, size, role=role, sentinels=sentinels))
    path = Path(chosen).expanduser()
    if path.exists() and not (path / "config.json").is_file():
        return open_tokenizer(path)
    if "/" not in chosen and not path.exists() and chosen.islower() and "-" not in chosen:
        raise ConfigError(
            f"no tokenizer {chosen!r}; give a folder, a model, or one of {', '.join(TokenizerKind)}"
        )
    return load_tokenizer(chosen)


def _kept(key: str, make: Callable[[], Any]) -> Any:
    folder = cached_folder("tokenizers", hashlib.sha256(key.encode()).hexdigest()[:32])
    if not folder.is_dir():
        tokenizer = make()
        with folder_by_rename(folder) as temporary:
            tokenizer.save_pretrained(temporary)
    return open_tokenizer(folder)


def _texts(train: CorpusPart) -> Iterator[str]:
    characters = 0
    for piece in train.pieces():
        yield piece.text
        characters += len(piece.text)
        if characters > TOKENIZER_CHARACTERS:
            return


def token_file(part: CorpusPart, tokenizer: Any, role: Role, *, show: bool = False) -> TokenFile:
    """The part's token ids, of a decoder's corpus with marks around documents; from the cache where it is there.

    Raises :class:`~workbench.errors.DataError` for a corpus that cannot be read.
    """
    is_causal = role is Role.DECODER
    marks = (tokenizer.bos_token_id, tokenizer.eos_token_id) if is_causal else (None, None)
    if marks[0] == marks[1]:  # GPT-2 has one id for both
        marks = (None, marks[1])
    key = f"1 {part.sha256} {tokenizer_hash(tokenizer)} {marks} {part.column}{part.part}"
    folder = cached_folder("tokens", hashlib.sha256(key.encode()).hexdigest()[:32])
    if folder.is_dir():
        return TokenFile.open(folder)
    name = f"tokenizing {Path(part.path).name}{part.part}"
    with tqdm(desc=name, unit="char", unit_scale=True, disable=not show) as bar:
        tell: Callable[[int], Any] = bar.update
        return build_token_file(
            part.pieces(),
            tokenizer,
            folder,
            corpus_sha256=part.sha256,
            document_start=marks[0],
            document_end=marks[1],
            progress=tell,
        )
