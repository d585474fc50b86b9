"""Translation (line-aligned files) and summarisation (documents with summaries)."""

from __future__ import annotations

from functools import partial

from workbench.data.pairs import aligned_lines
from workbench.data.rows import Transfer
from workbench.data.source import Hub, Record, Source, field_of

__all__ = ["INVENTED", "LANGUAGES", "SUMMARIES", "multi30k_source"]

LANGUAGES = {"en": "English", "de": "German", "fr": "French"}


def multi30k_source(source: str, target: str) -> Source[Transfer]:
    """Multi30k task 1 (Elliott et al. 2016): image captions, one a line, the languages line by line the same."""
    stems = {
        "train": ("train", "train_first10000"),
        "validation": ("val",),
        "test": ("test_2016_flickr", "test2016"),
    }
    names = {
        s: tuple(f"{p}{n}.{source}" for p in ("", "multi30k/") for n in found) for s, found in stems.items()
    }
    return Source(
        name=f"multi30k/{source}-{target}",
        files=names,
        parse=partial(_pair, source, target),
        hub=Hub("bentrevett/multi30k"),
        records=partial(aligned_lines, source=source, target=target),
    )


def _pair(source: str, target: str, record: Record, where: str, row: str) -> list[Transfer]:
    return [Transfer(row, field_of(record, where, source), (field_of(record, where, target),))]


def _invented(record: Record, where: str, row: str) -> list[Transfer]:
    return [Transfer(row, field_of(record, where, "source"), (field_of(record, where, "target"),))]


INVENTED: Source[Transfer] = Source(
    name="invented_language",
    files={
        "train": ("train.jsonl",),
        "validation": ("validation.jsonl",),
        "test": ("test.jsonl", "invented_language.jsonl"),
    },
    parse=_invented,
)
"""Sentences of the grammar in an invented language, as :mod:`workbench.data.grammar.invented` writes them."""


def _summary(record: Record, where: str, row: str) -> list[Transfer]:
    text = field_of(record, where, "document", "article")
    return [Transfer(row, text, (field_of(record, where, "summary", "highlights"),))]


SUMMARIES: dict[str, Source[Transfer]] = {
    source.name: source
    for source in (
        Source(
            name="xsum",
            files={
                "train": ("train.jsonl", "xsum/train.jsonl"),
                "test": (
                    "test.jsonl",
                    "test_sample500.jsonl",
                    "xsum/test.jsonl",
                    "xsum/test_sample500.jsonl",
                ),
            },
            parse=_summary,
            hub=Hub("EdinburghNLP/xsum"),
        ),
        Source(
            name="cnn_dailymail",
            files={
                "train": ("train.jsonl", "cnn_dailymail/train.jsonl"),
                "test": ("test.jsonl", "test.csv", "cnn_dailymail/test.jsonl", "cnn_dailymail/test.csv"),
            },
            parse=_summary,
            hub=Hub("abisee/cnn_dailymail", "3.0.0"),
        ),
    )
}
