"""WikiText-2 raw (Merity et al. 2017): articles that start with a heading between single equals signs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from workbench.data.files import read_text
from workbench.data.rows import Document
from workbench.data.source import Hub, Record, Source, field_of

__all__ = ["WIKITEXT2", "WIKITEXT2_PLAIN", "plain_text"]

_HEADING = re.compile(r" = [^=].* = ")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")  # with its end


def _records(path: Path) -> Iterator[tuple[str, Record]]:
    """One article after the other: joined again they are the file, whatever its line ends and its last character."""
    article: list[str] = []
    started, alone = 1, True
    for number, line in enumerate(_LINE.findall(read_text(path)), 1):
        if alone and _HEADING.fullmatch(line.rstrip("\r\n")) and any(part.strip() for part in article):
            yield f"{path}, line {started}", {"page": "".join(article)}
            article, started = [], number
        article.append(line)
        alone = not line.strip()  # blank lines hold one space, as in the official file
    yield f"{path}, line {started}", {"page": "".join(article)}


def plain_text(page: str) -> str:
    """The page as it would be printed: without the blanks and markers that its tokenisation put in.

    Does what lm-eval's ``wikitext`` task does to a page before scoring it, so that numbers compare.
    """
    text = page.replace("s '", "s'")
    for marker, sign in ((" @-@ ", "-"), (" @,@ ", ","), (" @.@ ", ".")):
        text = text.replace(marker, sign)
    for sign in ":;.!?,":
        text = text.replace(f" {sign} ", f"{sign} ")
    for pattern, inside in (
        (r"\(\s*([^\)]*?)\s*\)", r"(\1)"),
        (r"\[\s*([^\]]*?)\s*\]", r"[\1]"),
        (r"{\s*([^}]*?)\s*}", r"{\1}"),
        (r"\"\s*([^\"]*?)\s*\"", r'"\1"'),
        (r"'\s*([^']*?)\s*'", r"'\1'"),
    ):
        text = re.sub(pattern, inside, text)
    for old, new in (("= = = =", "===="), ("= = =", "==="), ("= =", "=="), (" ° ", "°"), (" \n", "\n")):
        text = text.replace(old, new)
    return text.replace("\n ", "\n").replace(" N ", " 1 ").replace(" 's", "'s")


def _raw(record: Record, where: str, row: str) -> list[Document]:
    page = field_of(record, where, "page")
    return [Document(row, page, len(page.split()), len(page.encode()))] if page.strip() else []


def _plain(record: Record, where: str, row: str) -> list[Document]:
    page = field_of(record, where, "page")
    # lm-eval counts the empty strings before and after the page as words
    words = len(re.split(r"\s+", page))
    return [Document(row, plain_text(page), words, len(page.encode()))] if page.strip() else []


_FILES = {
    split: tuple(f"{p}wiki.{stem}.raw" for p in ("", "wikitext2/", "wikitext-2-raw/") for stem in (name,))
    for split, name in (("train", "train"), ("validation", "valid"), ("test", "test"))
}
_HUB = Hub("EleutherAI/wikitext_document_level", "wikitext-2-raw-v1")
WIKITEXT2: Source[Document] = Source(name="wikitext2", files=_FILES, parse=_raw, hub=_HUB, records=_records)
WIKITEXT2_PLAIN: Source[Document] = Source(
    name="wikitext", files=_FILES, parse=_plain, hub=_HUB, records=_records
)
