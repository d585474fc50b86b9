"""A corpus as token ids in a memory-mapped file, built by streaming, so that it may be larger than memory.

A folder holds ``tokens.bin`` (ids, 16 or 32 bits each), ``sentences.bin`` and ``documents.bin`` (where each starts,
64 bits) and ``tokens.json``, which is written last.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from jaxtyping import Int

from workbench.data.corpus_stream import CorpusPiece, split_sentences
from workbench.errors import DataError
from workbench.folders import folder_by_rename

__all__ = ["TokenFile", "TokenFileInfo", "build_token_file", "tokenizer_hash"]

FORMAT = 1
_PIECES_AT_ONCE = 32


@dataclass(frozen=True)
class TokenFileInfo:
    """What a token file holds and what it was made from."""

    tokens: int
    sentences: int
    documents: int
    characters: int
    dtype: str
    corpus_sha256: str
    tokenizer_sha256: str
    format: int = FORMAT


@dataclass(frozen=True)
class TokenFile:
    """Token ids of a whole corpus, read from disk where they are used."""

    path: Path
    info: TokenFileInfo

    @classmethod
    def open(cls, path: Path) -> TokenFile:
        """Open a folder; raises :class:`~workbench.errors.DataError` if it is incomplete."""
        try:
            info = TokenFileInfo(**json.loads((path / "tokens.json").read_text()))
        except (OSError, ValueError, TypeError) as error:
            raise DataError(
                f"{path} is no complete token file: {error}; remove it and build it again"
            ) from error
        size = (path / "tokens.bin").stat().st_size
        if size != info.tokens * np.dtype(info.dtype).itemsize:
            raise DataError(
                f"{path}/tokens.bin has {size} bytes, not those of {info.tokens} tokens; build it again"
            )
        return cls(path, info)

    @cached_property
    def ids(self) -> Int[np.ndarray, " token"]:
        """All token ids."""
        return np.memmap(self.path / "tokens.bin", dtype=self.info.dtype, mode="r")

    @cached_property
    def sentences(self) -> Int[np.ndarray, " sentence"]:
        """Index of the first token of each sentence."""
        return self._starts("sentences")

    @cached_property
    def documents(self) -> Int[np.ndarray, " document"]:
        """Index of the first token of each document that starts in the text."""
        return self._starts("documents")

    def _starts(self, name: str) -> Int[np.ndarray, " start"]:
        file = self.path / f"{name}.bin"
        if not file.stat().st_size:  # a part of a document; an empty file cannot be mapped
            return np.zeros(0, dtype=np.int64)
        return np.memmap(file, dtype=np.int64, mode="r")

    def __len__(self) -> int:
        return self.info.tokens


def tokenizer_hash(tokenizer: Any) -> str:
    """SHA-256 over all that decides how ``tokenizer`` (a transformers tokenizer) splits a text."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    content = backend.to_str() if backend is not None else json.dumps(sorted(tokenizer.get_vocab().items()))
    return hashlib.sha256(content.encode()).hexdigest()


def build_token_file(
    pieces: Iterable[CorpusPiece],
    tokenizer: Any,
    folder: Path,
    *,
    corpus_sha256: str,
    document_start: int | None = None,
    document_end: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> TokenFile:
    """Tokenize ``pieces`` into ``folder``, which appears whole or not at all.

    ``document_start`` and ``document_end`` are ids put around each document. ``progress`` is called with the number of
    characters after each few pieces. Raises :class:`~workbench.errors.DataError` if no token comes out.
    """
    try:
        with folder_by_rename(folder) as staging:
            with _Writer(staging, len(tokenizer)) as writer:
                for group in _groups(pieces, _PIECES_AT_ONCE):
                    writer.add(group, tokenizer, document_start, document_end)
                    if progress is not None:
                        progress(sum(len(piece.text) for piece in group))
                info = writer.finish(document_end, corpus_sha256, tokenizer_hash(tokenizer))
            (staging / "tokens.json").write_text(json.dumps(asdict(info), indent=1))
    except OSError as error:
        raise DataError(f"cannot write token file {folder}: {error.strerror or error}") from error
    return TokenFile.open(folder)


class _Writer:
    def __init__(self, folder: Path, vocabulary: int) -> None:
        self.dtype = np.dtype(np.uint16 if vocabulary <= 1 << 16 else np.uint32)
        self.tokens = self.sentences = self.documents = self.characters = 0
        names = ("tokens", "sentences", "documents")
        self.files: dict[str, BinaryIO] = {name: (folder / f"{name}.bin").open("wb") for name in names}

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, *_reason: object) -> None:
        for file in self.files.values():
            file.close()

    def add(
        self, pieces: list[CorpusPiece], tokenizer: Any, document_start: int | None, document_end: int | None
    ) -> None:
        """Append the pieces' sentences as tokens."""
        sentences = [split_sentences(piece.text) for piece in pieces]
        flat = [sentence for part in sentences for sentence in part]
        encoded = (
            iter(tokenizer(flat, add_special_tokens=False, verbose=False)["input_ids"]) if flat else iter(())
        )
        for piece, part in zip(pieces, sentences, strict=True):
            opening: list[int] = []
            if piece.opens_document and part:
                self._end_document(document_end)
                self._mark("documents")
                opening = [] if document_start is None else [document_start]
            for _ in part:
                ids = [*opening, *next(encoded)]
                opening = []
                if ids:
                    self._mark("sentences")
                    self._write(ids)
            self.characters += len(piece.text)

    def finish(self, document_end: int | None, corpus_sha256: str, tokenizer_sha256: str) -> TokenFileInfo:
        """Close the last document and say what was written; raises :class:`DataError` for no tokens."""
        if self.tokens == 0:
            raise DataError("the corpus gave no tokens; give a text with at least one visible character")
        self._end_document(document_end)
        return TokenFileInfo(
            tokens=self.tokens,
            sentences=self.sentences,
            documents=self.documents,
            characters=self.characters,
            dtype=self.dtype.name,
            corpus_sha256=corpus_sha256,
            tokenizer_sha256=tokenizer_sha256,
        )

    def _end_document(self, document_end: int | None) -> None:
        if self.tokens and document_end is not None:
            self._write([document_end])

    def _mark(self, name: str) -> None:
        self.files[name].write(np.int64(self.tokens).tobytes())
        setattr(self, name, getattr(self, name) + 1)

    def _write(self, ids: list[int]) -> None:
        self.files["tokens"].write(np.asarray(ids, dtype=self.dtype).tobytes())
        self.tokens += len(ids)


def _groups(pieces: Iterable[CorpusPiece], size: int) -> Iterator[list[CorpusPiece]]:
    group: list[CorpusPiece] = []
    for piece in pieces:
        group.append(piece)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group
