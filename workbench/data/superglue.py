"""SuperGLUE (Wang et al. 2019) in its official JSONL layout."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Any

from workbench.data.rows import Blanked, Choices, SpanPair, TextPair
from workbench.data.source import Files, Hub, Record, Source, field_of, label_of
from workbench.errors import DataError

__all__ = ["SUPERGLUE_LABELS", "superglue_blanked", "superglue_choices", "superglue_pairs", "superglue_spans"]

_TWO_WAY = ("entailment", "not_entailment")
SUPERGLUE_LABELS: dict[str, tuple[str, ...]] = {
    "boolq": ("false", "true"),
    "cb": ("entailment", "contradiction", "neutral"),
    "multirc": ("false", "true"),
    "rte": _TWO_WAY,
    "wic": ("false", "true"),
    "wsc": ("false", "true"),
    "axb": _TWO_WAY,
    "axg": _TWO_WAY,
}
_FOLDERS = {
    "boolq": "BoolQ",
    "cb": "CB",
    "copa": "COPA",
    "multirc": "MultiRC",
    "record": "ReCoRD",
    "rte": "RTE",
    "wic": "WiC",
    "wsc": "WSC",
    "axb": "AX-b",
    "axg": "AX-g",
}
_TEXTS = {
    "boolq": ("passage", "question"),
    "cb": ("premise", "hypothesis"),
    "rte": ("premise", "hypothesis"),
    "axb": ("sentence1", "sentence2"),
    "axg": ("premise", "hypothesis"),
}


def _files(name: str) -> Files:
    folder = _FOLDERS[name]
    above = ("", "superglue/", "SuperGLUE/")
    if name in ("axb", "axg"):
        return {"validation": tuple(f"{p}{f}{folder}.jsonl" for p in above for f in ("", f"{folder}/"))}
    names = {"train": ("train",), "validation": ("val", "dev"), "test": ("test",)}
    if name == "record":  # the small sets that few-shot studies use
        names = {"train": ("train", "train32"), "validation": ("val", "dev32"), "test": ("test",)}
    return {
        split: (
            *(f"{p}{folder}/{stem}.jsonl" for p in above for stem in stems),
            *(f"{stem}.jsonl" for stem in stems),
        )
        for split, stems in names.items()
    }


def _hub(name: str) -> Hub:
    splits = {"validation": "test"} if name in ("axb", "axg") else {}
    return Hub("aps/super_glue", "wsc.fixed" if name == "wsc" else name, splits)


def _source(name: str, parse: Callable[[Record, str, str], Iterable[Any]]) -> Source[Any]:
    return Source(name=f"superglue/{name}", files=_files(name), parse=parse, hub=_hub(name))


def superglue_pairs(name: str) -> Source[TextPair]:
    """BoolQ, CB, RTE, AX-b, AX-g and MultiRC (a passage with its question, and an answer) as pairs of texts."""
    if name == "multirc":
        return _source(name, _multirc)
    first, second = _TEXTS[name]

    def parse(record: Record, where: str, row: str) -> list[TextPair]:
        text = field_of(record, where, first)
        gold = _gold(record, SUPERGLUE_LABELS[name], where)
        index = str(record.get("idx", ""))
        # AX-g: two sentences each that differ in the gender of a pronoun stand one after the other.
        twins = f"twins-{int(index) // 2}" if name == "axg" and index.isdigit() else None
        cluster = f"passage-{hash_name(text)}" if name == "boolq" else twins
        return [TextPair(row, text, field_of(record, where, second), gold, index, cluster, twins)]

    return _source(name, parse)


def hash_name(text: str) -> str:
    """A short name for a text, the same in every process."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _gold(record: Record, labels: tuple[str, ...], where: str) -> int | None:
    value = record.get("label")
    if value is None or (not isinstance(value, bool) and value == -1):
        return None
    return label_of("true" if value is True else "false" if value is False else value, labels, where)


def _multirc(record: Record, where: str, row: str) -> list[TextPair]:
    labels = SUPERGLUE_LABELS["multirc"]
    if "passage" not in record:  # the hub has one answer a row
        key = record["idx"]
        text = f"{field_of(record, where, 'paragraph')}\n{field_of(record, where, 'question')}"
        group = f"{key['paragraph']}-{key['question']}"
        answer = field_of(record, where, "answer")
        gold = _gold(record, labels, where)
        return [TextPair(row, text, answer, gold, str(key["answer"]), f"{key['paragraph']}", group)]
    passage, number = record["passage"], str(record.get("idx", row))
    found = []
    for question in field_of(passage, where, "questions"):
        group = f"{number}-{question.get('idx')}"
        for answer in field_of(question, where, "answers"):
            text = f"{field_of(passage, where, 'text')}\n{field_of(question, where, 'question')}"
            label = _gold(answer, labels, where)
            name = f"{row}-{question.get('idx')}-{answer.get('idx')}"
            found.append(TextPair(name, text, answer["text"], label, str(answer.get("idx")), number, group))
    return found


def superglue_choices() -> Source[Choices]:
    """COPA: a premise with its connective, and two clauses that may follow."""
    return _source("copa", _copa)


def _copa(record: Record, where: str, row: str) -> list[Choices]:
    if "query" in record:  # llm-foundry's form
        choices = tuple(field_of(record, where, "choices"))
        return [Choices(row, record["query"], choices, (int(record["gold"]),))]
    question = field_of(record, where, "question")
    if question not in ("cause", "effect"):
        raise DataError(f"{where}: question is {question!r}; allowed: cause, effect")
    premise = str(field_of(record, where, "premise")).strip().removesuffix(".")
    choices = tuple(_lowered(field_of(record, where, name)) for name in ("choice1", "choice2"))
    connective = "because" if question == "cause" else "therefore"
    label = record.get("label")
    gold = () if label in (None, -1) else (label_of(label, ("0", "1"), where),)
    return [Choices(row, f"{premise} {connective}", choices, gold)]


def _lowered(text: str) -> str:
    return text[:1].lower() + text[1:]


def superglue_spans(name: str) -> Source[SpanPair]:
    """WiC (a word in two sentences) and WSC (a noun and a pronoun in one)."""
    return _source(name, _wic if name == "wic" else _wsc)


def _wic(record: Record, where: str, row: str) -> list[SpanPair]:
    sentences = [field_of(record, where, n) for n in ("sentence1", "sentence2")]
    spans = [
        (int(field_of(record, where, f"start{k}")), int(field_of(record, where, f"end{k}"))) for k in (1, 2)
    ]
    for sentence, (start, end) in zip(sentences, spans, strict=True):
        if not 0 <= start < end <= len(sentence):
            raise DataError(f"{where}: characters {start} to {end} are outside {sentence!r:.40}")
    gold = _gold(record, SUPERGLUE_LABELS["wic"], where)
    return [SpanPair(row, sentences[0], sentences[1], spans[0], spans[1], gold, str(record.get("idx", "")))]


def _wsc(record: Record, where: str, row: str) -> list[SpanPair]:
    target = record.get("target") or record  # the hub has no inner object
    text = field_of(record, where, "text")
    spans = [
        _word_span(
            text, int(field_of(target, where, f"span{k}_index")), field_of(target, where, f"span{k}_text")
        )
        for k in (1, 2)
    ]
    gold = _gold(record, SUPERGLUE_LABELS["wsc"], where)
    cluster = f"text-{hash_name(text)}"
    return [SpanPair(row, text, text, spans[0], spans[1], gold, str(record.get("idx", "")), cluster)]


def _word_span(text: str, word: int, span: str) -> tuple[int, int]:
    """Characters of ``span``, which starts at the word numbered ``word``; the nearest place where it stands."""
    starts = [match.start() for match in re.finditer(r"\S+", text)]
    wanted = starts[min(word, len(starts) - 1)]
    places = [m.start() for m in re.finditer(r"(?=" + re.escape(span) + ")", text)]
    start = min(places, key=lambda place: abs(place - wanted), default=wanted)
    return start, min(start + len(span), len(text))


def superglue_blanked() -> Source[Blanked]:
    """ReCoRD: a news passage, and a sentence about it with an entity left out."""
    return _source("record", _record)


def _record(record: Record, where: str, row: str) -> list[Blanked]:
    passage = field_of(record, where, "passage")
    if isinstance(passage, str):  # the hub has one query a row
        key = record["idx"]
        entities, answers = tuple(record["entities"]), tuple(record["answers"])
        return [_blank(row, passage, record["query"], entities, answers, f"passage-{key['passage']}", where)]
    text = field_of(passage, where, "text")
    entities = tuple(text[e["start"] : e["end"] + 1] for e in field_of(passage, where, "entities"))
    return [
        _blank(
            f"{row}-{number}",
            text,
            field_of(query, where, "query"),
            entities,
            tuple(a["text"] for a in query.get("answers", ())),
            f"passage-{record.get('idx', row)}",
            where,
        )
        for number, query in enumerate(field_of(record, where, "qas"))
    ]


def _blank(
    row: str,
    text: str,
    query: str,
    entities: tuple[str, ...],
    answers: tuple[str, ...],
    cluster: str,
    where: str,
) -> Blanked:
    before, gap, after = query.partition("@placeholder")
    if not gap:
        raise DataError(f"{where}: the query has no @placeholder: {query!r:.60}")
    return Blanked(
        row, text, before, after, tuple(sorted(set(entities))), tuple(sorted(set(answers))), cluster
    )
