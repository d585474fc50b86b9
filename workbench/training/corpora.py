"""A recipe's text: its tokenizer, trained or loaded, and the token files, each made once and kept in the cache."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from workbench.data.corpus_stream import corpus_hash, stream_corpus
from workbench.data.corpus_tokens import TokenFile, build_token_file, tokenizer_hash
from workbench.errors import ConfigError
from workbench.models import load_tokenizer
from workbench.models._files import cache_dir, folder_by_rename
from workbench.text import Role, TokenizerKind, train_tokenizer
from workbench.text import load_tokenizer as open_tokenizer
from workbench.training.settings import DataSource

__all__ = ["Corpora", "prepare_corpora"]

TOKENIZER_CHARACTERS = 32 << 20  # the vocabulary is learned from the first so many characters

_DEFAULT_KIND = {
    Role.ENCODER: TokenizerKind.WORDPIECE,
    Role.DECODER: TokenizerKind.BYTE_BPE,
    Role.SEQ2SEQ: TokenizerKind.BPE,
}


@dataclass(frozen=True)
class Corpora:
    """What is trained and, where it was named, validated on; ``tokenizer`` is a transformers tokenizer."""

    tokenizer: Any
    train: TokenFile
    validation: TokenFile | None

    @property
    def hashes(self) -> tuple[str, ...]:
        """Content of corpus, tokenizer and validation set."""
        files = [self.train] if self.validation is None else [self.train, self.validation]
        return tuple(h for file in files for h in (file.info.corpus_sha256, file.info.tokenizer_sha256))


def prepare_corpora(data: DataSource, role: Role, model: str | None, *, show: bool = False) -> Corpora:
    """Train or load the tokenizer and make the token files; what the cache holds is not made again.

    Raises :class:`~workbench.errors.DataError` for a corpus that cannot be read, and
    :class:`~workbench.errors.ConfigError` for a tokenizer that is none.
    """
    sha256 = corpus_hash(data.corpus)
    tokenizer = _tokenizer(data, role, model, sha256)
    is_causal = role is Role.DECODER
    marks = (tokenizer.bos_token_id, tokenizer.eos_token_id) if is_causal else (None, None)
    if marks[0] == marks[1]:  # GPT-2 has one id for both
        marks = (None, marks[1])
    return Corpora(
        tokenizer,
        _token_file(data.corpus, sha256, data.text_column, tokenizer, marks, show),
        None
        if data.validation is None
        else _token_file(
            data.validation, corpus_hash(data.validation), data.text_column, tokenizer, marks, show
        ),
    )


def _tokenizer(data: DataSource, role: Role, model: str | None, sha256: str) -> Any:
    chosen = data.tokenizer
    if chosen is None and model is not None:
        return load_tokenizer(model)
    chosen = chosen or _DEFAULT_KIND[role]
    if chosen in list(TokenizerKind):
        return _trained(data, TokenizerKind(chosen), role, sha256)
    path = Path(chosen).expanduser()
    if path.exists() and not (path / "config.json").is_file():
        return open_tokenizer(path)
    if "/" not in chosen and not path.exists() and chosen.islower() and "-" not in chosen:
        raise ConfigError(
            f"no tokenizer {chosen!r}; give a folder, a model, or one of {', '.join(TokenizerKind)}"
        )
    return load_tokenizer(chosen)


def _trained(data: DataSource, kind: TokenizerKind, role: Role, sha256: str) -> Any:
    size = None if kind is TokenizerKind.BYTES else data.vocab_size
    key = hashlib.sha256(f"2 {sha256} {kind} {role} {size} {data.text_column}".encode()).hexdigest()[:32]
    folder = cache_dir() / "tokenizers" / key
    if not folder.is_dir():
        tokenizer = train_tokenizer(_texts(data), kind, size, role=role)
        with folder_by_rename(folder) as temporary:
            tokenizer.save_pretrained(temporary)
    return open_tokenizer(folder)


def _texts(data: DataSource) -> Iterator[str]:
    characters = 0
    for piece in stream_corpus(data.corpus, data.text_column):
        yield piece.text
        characters += len(piece.text)
        if characters > TOKENIZER_CHARACTERS:
            return


def _token_file(
    corpus: str,
    sha256: str,
    column: str,
    tokenizer: Any,
    marks: tuple[int | None, int | None],
    show: bool,
) -> TokenFile:
    key = f"1 {sha256} {tokenizer_hash(tokenizer)} {marks} {column}"
    folder = cache_dir() / "tokens" / hashlib.sha256(key.encode()).hexdigest()[:32]
    if folder.is_dir():
        return TokenFile.open(folder)
    with tqdm(desc=f"tokenizing {Path(corpus).name}", unit="char", unit_scale=True, disable=not show) as bar:
        tell: Callable[[int], Any] = bar.update
        return build_token_file(
            stream_corpus(corpus, column),
            tokenizer,
            folder,
            corpus_sha256=sha256,
            document_start=marks[0],
            document_end=marks[1],
            progress=tell,
        )
