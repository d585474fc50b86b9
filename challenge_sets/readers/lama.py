"""LAMA (Petroni et al. 2019): facts as cloze sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from workbench.characters import check_text
from workbench.data.files import find_file, read_jsonl, text_field
from workbench.errors import DataError

__all__ = ["MASK", "ClozeFact", "read", "read_relations"]

MASK = "[MASK]"


class ClozeFact(NamedTuple):
    """A fact and the sentences from a text that state it, with its object masked.

    ``source`` is the part of LAMA. ``prompt`` is the relation's template filled with the subject, where the
    part has templates. In Google-RE a fact may span two sentences of which one has the mask, or both, or one
    has several.
    """

    id: str
    source: str
    relation: str
    subject: str
    object: str
    sentences: tuple[str, ...]
    prompt: str | None


def read_relations(path: Path | str) -> dict[str, str]:
    """Templates by relation, with ``[X]`` for the subject and ``[Y]`` for the object, from ``relations.jsonl``."""
    path = Path(path)
    file = find_file(path, "relations.jsonl") if path.is_dir() else path
    found: dict[str, str] = {}
    for number, record in read_jsonl(file):
        where = f"{file}, line {number}"
        template = text_field(record, "template", where)
        if "[X]" not in template or "[Y]" not in template:
            raise DataError(f"{where}: a template needs [X] and [Y], is {template!r:.60}")
        found[text_field(record, "relation", where)] = template
    return found


def _sentences(record: dict[str, Any], where: str) -> tuple[str, ...]:
    if "evidences" in record:
        found = [item.get("masked_sentence") for item in record["evidences"]]
    else:
        found = record.get("masked_sentences")  # type: ignore[assignment]
    if not isinstance(found, list) or not found or not all(isinstance(text, str) for text in found):
        raise DataError(f"{where}: masked_sentences must be a list of strings, is {found!r:.60}")
    if not any(MASK in text for text in found):
        raise DataError(f"{where}: no {MASK} in {found[0]!r:.60}")
    return tuple(check_text(text, where) for text in found)


def _relation(record: dict[str, Any]) -> tuple[str, str]:
    """Source and relation of a record, which its fields tell."""
    if "predicate_id" in record:
        return "TREx", str(record["predicate_id"])
    if "pred" in record:
        return "Google_RE", str(record["pred"]).rsplit("/", 1)[-1]
    return "Squad", "Squad"


def _prompt(templates: Mapping[str, str], relation: str, subject: str) -> str | None:
    template = templates.get(relation)
    return template.replace("[X]", subject).replace("[Y]", MASK) if template else None


def read(path: Path | str, templates: Mapping[str, str] | None = None) -> Iterator[ClozeFact]:
    """The facts of one JSONL file of T-REx, Google-RE or SQuAD.

    ``templates`` (from :func:`read_relations`) fill ``prompt``. Raises :class:`~workbench.errors.DataError`
    naming file and line for a record without object, or a sentence without mask.
    """
    for number, record in read_jsonl(path):
        where = f"{path}, line {number}"
        source, relation = _relation(record)
        subject = text_field(record, "sub_label", where)
        yield ClozeFact(
            id=str(record.get("uuid") or record.get("id") or number),
            source=source,
            relation=relation,
            subject=subject,
            object=text_field(record, "obj_label", where),
            sentences=_sentences(record, where),
            prompt=_prompt(templates or {}, relation, subject),
        )
