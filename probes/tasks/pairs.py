"""Tasks on pairs of spans: word senses (WiC), and edge-probing files (coreference, semantic roles, …)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from probes._data import Place, ProbeData, ProbeItem, Unit, Words
from probes.tasks._task import ProbeTask, probe_data, register
from workbench.data.files import read_jsonl, text_field
from workbench.errors import DataError
from workbench.text import Span, split_words

__all__ = ["read_edges", "read_wic"]

_SENSE = "whether a word has the same sense in two sentences"
_EDGE = "the label of one span, or between two"


def read_wic(path: Path, limit: int | None = None) -> ProbeData:
    """SuperGLUE's WiC: two sentences with character offsets of one word, and whether its sense is the same."""
    words: list[Words] = []
    items: list[ProbeItem] = []
    for number, record in read_jsonl(path):
        if limit is not None and len(items) >= limit:
            break
        where = f"{path}, line {number}"
        if "label" not in record:
            raise DataError(f"{where}: no field 'label'; a test file without labels cannot be probed")
        places = tuple(_marked(words, record, which, where) for which in ("1", "2"))
        items.append(
            ProbeItem(places, str(bool(record["label"])).lower(), text_field(record, "word", where).lower())
        )
    return probe_data("wic", Unit.PAIR, tuple(words), items, (path.stem, str(path)), _SENSE)


def _marked(words: list[Words], record: dict[str, Any], which: str, where: str) -> Place:
    """Add the sentence ``which`` and give the place of its marked characters."""
    text = text_field(record, f"sentence{which}", where)
    start, stop = record.get(f"start{which}"), record.get(f"end{which}")
    if not (isinstance(start, int) and isinstance(stop, int) and 0 <= start < stop <= len(text)):
        raise DataError(
            f"{where}: characters {start} to {stop} are not in sentence{which} ({len(text)} characters)"
        )
    spans = split_words(text, punctuation=True)
    inside = [w for w, (a, b) in enumerate(spans) if a < stop and b > start]
    if not inside:
        raise DataError(f"{where}: characters {start} to {stop} of sentence{which} hold no word")
    words.append(_split(text, spans, where))
    return Place(len(words) - 1, inside[0], inside[-1] + 1)


def _split(text: str, spans: tuple[Span, ...], where: str) -> Words:
    following = [b for b, _ in spans[1:]] + [len(text) + 1]
    return Words(
        tuple(text[a:b] for a, b in spans),
        tuple(b < after for (_, b), after in zip(spans, following, strict=True)),
        "",
        where,
    )


def read_edges(path: Path, limit: int | None = None) -> ProbeData:
    """Edge-probing JSONL (Tenney et al. 2019): ``text`` and ``targets`` with span1, perhaps span2, and label.

    Spans are half-open and count the text's space-separated words.
    """
    words: list[Words] = []
    items: list[ProbeItem] = []
    for number, record in read_jsonl(path):
        if limit is not None and len(words) >= limit:
            break
        where = f"{path}, line {number}"
        forms = tuple(text_field(record, "text", where).split())
        targets = record.get("targets")
        if not isinstance(targets, list):
            raise DataError(f"{where}: field 'targets' must be a list of spans with labels")
        items += [_edge(target, forms, len(words), where) for target in targets]
        words.append(Words(forms, None, "", where))
    if len({len(item.places) for item in items}) > 1:
        raise DataError(f"{path}: some targets have one span and some two; split the file")
    unit = Unit.PAIR if items and len(items[0].places) == 2 else Unit.SPAN
    return probe_data("edge", unit, tuple(words), items, (path.stem, str(path)), _EDGE)


def _edge(target: Any, forms: tuple[str, ...], sentence: int, where: str) -> ProbeItem:
    if not isinstance(target, dict) or "span1" not in target or "label" not in target:
        raise DataError(f"{where}: a target needs span1 and label, is {target!r:.60}")
    places = []
    for name in ("span1", "span2"):
        span = target.get(name)
        if span is None:
            continue
        if not (isinstance(span, list) and len(span) == 2 and all(isinstance(n, int) for n in span)):
            raise DataError(f"{where}: {name} must be [first, last + 1], is {span!r:.40}")
        if not 0 <= span[0] < span[1] <= len(forms):
            raise DataError(f"{where}: {name} {span} is not inside the text's {len(forms)} words")
        places.append(Place(sentence, *span))
    form = " | ".join(" ".join(forms[p.start : p.stop]) for p in places).lower()
    return ProbeItem(tuple(places), str(target["label"]), form)


register(ProbeTask("wic", Unit.PAIR, _SENSE, read=read_wic, formats="SuperGLUE's WiC JSONL"))
register(ProbeTask("edge", Unit.PAIR, _EDGE, read=read_edges, formats="edge-probing JSONL"))
