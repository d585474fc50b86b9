"""Read a corpus of any size as a stream of pieces: plain text, .xz, .gz, .zst, JSONL, Parquet, folders, the hub."""

from __future__ import annotations

import codecs
import gzip
import hashlib
import lzma
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from workbench.data.files import parse_object
from workbench.data.hub import HubName, hub_splits, is_hub_name, reading
from workbench.errors import DataError

__all__ = ["CorpusPiece", "corpus_files", "corpus_hash", "split_sentences", "stream_corpus"]

BLOCK_BYTES = 1 << 20
PIECE_CHARACTERS = 1 << 16  # a piece is tokenized as one; no line of 500 MB is ever held
SUFFIXES = (".txt", ".text", ".md", ".raw", ".jsonl", ".parquet", ".xz", ".gz", ".zst")

# Documents inside one text file stand at least two empty lines apart.
_DOCUMENT_BREAK = re.compile(r"\n{3,}")
# A sentence ends after its closing quote, or where a paragraph does; the white space opens the next one.
_SENTENCE_BREAK = re.compile(
    r"(?<!\b(?:Mr|Dr|St)\.)(?<!\bMrs\.)(?<=[.!?])(?=\s)|(?<=[.!?][\"'”’)\]])(?=\s)|(?<!\n)(?=\n\s*\n)"
)


@dataclass(frozen=True)
class CorpusPiece:
    """Some text of a document, at most :data:`PIECE_CHARACTERS` long; ``opens_document`` marks its first."""

    text: str
    opens_document: bool


def stream_corpus(path: str | Path, text_column: str = "text") -> Iterator[CorpusPiece]:
    """The corpus in a file, a folder of files, or on the hub
    (``hub:owner/name[@revision][:configuration[:split]]``, the split "train" by default), piece after piece.

    Raises :class:`~workbench.errors.DataError` if it is missing, empty, binary, or broken, naming the file.
    """
    if is_hub_name(path):
        yield from _checked(_documents(_hub_texts(str(path), text_column)), str(path))
        return
    for file in corpus_files(path):
        yield from _checked(_read_file(file, text_column), str(file))


def corpus_files(path: str | Path) -> list[Path]:
    """The files of a corpus in order of their names; raises :class:`~workbench.errors.DataError` for none."""
    path = Path(path).expanduser()
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise DataError(f"no corpus at {path}: give a text file, a folder of them, or hub:owner/name")
    files = sorted(p for p in path.rglob("*") if p.is_file() and p.suffix in SUFFIXES)
    if not files:
        raise DataError(f"no corpus in {path}: it holds no file that ends in {', '.join(SUFFIXES)}")
    return files


def corpus_hash(path: str | Path) -> str:
    """SHA-256 over the bytes of all files, which for a data set on the hub are its name; see :mod:`~.hub`.

    Of ``hub:FOLDER`` it is over configuration, split and the folder's files.
    """
    digest = hashlib.sha256()
    files: Iterable[Path] = ()
    if not is_hub_name(path):
        files = corpus_files(path)
    elif (folder := (name := HubName.parse(path)).folder) is None:
        digest.update(str(path).encode())
    else:
        digest.update(f"{name.configuration or ''}:{name.split or ''}".encode())
        files = sorted(file for file in folder.rglob("*") if file.is_file())
    for file in files:
        with file.open("rb") as stream:
            while block := stream.read(BLOCK_BYTES):
                digest.update(block)
    return digest.hexdigest()


def split_sentences(text: str) -> list[str]:
    """Split ``text`` after its sentences and paragraphs; joined again, the parts are ``text``."""
    return [part for part in _SENTENCE_BREAK.split(text) if part]


def _checked(pieces: Iterable[CorpusPiece], where: str) -> Iterator[CorpusPiece]:
    seen = False
    for piece in pieces:
        seen = seen or bool(piece.text.strip())
        yield piece
    if not seen:
        raise DataError(f"corpus {where} is empty; give a file with at least one sentence")


def _read_file(file: Path, text_column: str) -> Iterator[CorpusPiece]:
    kind = Path(file.stem).suffix if file.suffix in {".xz", ".gz", ".zst"} else file.suffix
    try:
        if kind == ".parquet":
            yield from _documents(_parquet_texts(file, text_column))
            return
        with _open(file) as stream:
            if kind == ".jsonl":
                yield from _documents(_jsonl_texts(stream, file, text_column))
            else:
                yield from _pieces(_decoded(stream, file))
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise DataError(f"cannot read corpus {file}: {getattr(error, 'strerror', None) or error}") from error


def _open(file: Path) -> Any:  # the three readers share no type, only read() and lines
    if file.suffix == ".xz":
        return lzma.open(file, "rb")
    if file.suffix == ".gz":
        return gzip.open(file, "rb")
    if file.suffix == ".zst":
        import pyarrow

        return pyarrow.input_stream(str(file), compression="zstd")
    return file.open("rb")


def _decoded(stream: IO[bytes], file: Path) -> Iterator[str]:
    """Text of each block; raises for bytes that are no UTF-8 text."""
    decoder, offset = codecs.getincrementaldecoder("utf-8-sig")(), 0
    while block := stream.read(BLOCK_BYTES):
        if b"\0" in block:
            place = offset + block.index(0)
            raise DataError(
                f"corpus {file} is binary: a NUL byte at {place}; give UTF-8 text, JSONL or Parquet"
            )
        try:
            text = decoder.decode(block)
        except UnicodeDecodeError as error:
            place = offset + error.start
            raise DataError(
                f"corpus {file} is not UTF-8 text: {error.reason} near byte {place}; save it as UTF-8"
            ) from error
        offset += len(block)
        yield text.replace("\r\n", "\n")
    if decoder.getstate()[0]:
        raise DataError(f"corpus {file} ends inside a character; it was cut short")


def _pieces(blocks: Iterable[str]) -> Iterator[CorpusPiece]:
    """Blocks of one text file as pieces, split at line breaks or spaces where there are any."""
    held, opens = "", True
    for block in blocks:
        held += block
        start = 0
        while len(held) - start > 2 * PIECE_CHARACTERS:
            end = start + _cut(held[start : start + PIECE_CHARACTERS])
            for piece in _documents_inside(held[start:end], opens):
                opens = False
                yield piece
            start = end
        held = held[start:]
    yield from _documents_inside(held, opens)


def _cut(text: str) -> int:
    """Where a piece ends: before white space between paragraphs, else lines, else words, else anywhere."""
    for mark in ("\n\n", "\n", " "):
        place = text.rfind(mark, len(text) // 2)
        while mark == "\n\n" and place > 0 and text[place - 1] == "\n":
            place -= 1  # a break between documents is never split
        if place > 0:
            return place
    return len(text)


def _documents_inside(text: str, opens: bool) -> Iterator[CorpusPiece]:
    for index, part in enumerate(_DOCUMENT_BREAK.split(text)):
        for start in range(0, len(part), PIECE_CHARACTERS):
            yield CorpusPiece(part[start : start + PIECE_CHARACTERS], start == 0 and (opens or index > 0))


def _documents(texts: Iterable[str]) -> Iterator[CorpusPiece]:
    """Each text is a document of its own."""
    for text in texts:
        first = True
        for piece in _pieces([text]):
            yield CorpusPiece(piece.text, first)
            first = False


def _jsonl_texts(stream: IO[bytes], file: Path, column: str) -> Iterator[str]:
    for number, line in enumerate(stream, 1):
        where = f"{file}, line {number}"
        if line.strip():
            yield _text_of(parse_object(line, where), column, where)


def _parquet_texts(file: Path, column: str) -> Iterator[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(file)
        if column not in table.schema_arrow.names:
            raise DataError(f"{file} has no column {column!r}; it has {', '.join(table.schema_arrow.names)}")
        for batch in table.iter_batches(columns=[column]):
            for text in batch.column(0).to_pylist():
                yield _text_of({column: text}, column, str(file))
    except pa.ArrowException as error:
        raise DataError(f"cannot read corpus {file}: {error}") from error


def _hub_texts(name: str, column: str) -> Iterator[str]:
    parsed = HubName.parse(name)
    rows = hub_splits(replace(parsed, split=parsed.split or "train"), "a corpus on the hub", streaming=True)
    with reading(parsed):
        for row in rows:
            yield _text_of(row, column, str(parsed))


def _text_of(record: Any, column: str, where: str) -> str:
    text = record.get(column) if isinstance(record, dict) else None
    if not isinstance(text, str):
        raise DataError(f"{where}: no text in {column!r}; name the column with --text-column")
    return text
