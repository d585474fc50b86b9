"""What kind of task rows are, recognised by their columns: ``workbench evaluate MODEL --task questions.jsonl``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.data.source import Record
from workbench.data.tables import class_label
from workbench.errors import DataError

__all__ = ["FORMS", "TABLE_FILES", "UnknownForm", "declared_by"]

TABLE_FILES = (".jsonl", ".json", ".csv", ".tsv", ".parquet")
_MOST_LABELS = 50


class UnknownForm(DataError):
    """Rows whose columns are those of no kind of task; ``where`` is their file, or what they are called."""

    def __init__(self, where: str, message: str) -> None:
        super().__init__(message)
        self.where = where


@dataclass(frozen=True)
class _Form:
    """Columns that tell a kind of task, each by any of its names, and the keys that a YAML file would declare."""

    columns: tuple[tuple[str, ...], ...]
    type: str

    def found(self, names: Sequence[str]) -> tuple[str, ...] | None:
        """The file's name of each column, if it has all."""
        chosen = tuple(next((n for n in options if n in names), "") for options in self.columns)
        return chosen if all(chosen) else None


_PROMPTS = ("query", "question", "prompt", "instruction", "input")
_GOLD = ("gold", "answer", "label", "answerKey")
# in this order: the first whose columns are all there
FORMS = (
    _Form((("context_options",), ("continuation",), _GOLD), "partial_choice"),
    _Form((("chosen",), ("rejected",)), "preferences"),
    _Form((_PROMPTS, ("choices", "options"), _GOLD), "multiple_choice"),
    _Form((("text", "sentence"), ("candidates",), ("answer", "target")), "cloze"),
    _Form((_PROMPTS, ("answer", "answers", "target", "output", "aliases")), "generation"),
    _Form((("text", "sentence", "review"), ("label", "class")), "classification"),
    _Form((("text", "document", "content"),), "perplexity"),
)


def declared_by(rows: Sequence[Record], where: object, name: str) -> dict[str, Any]:
    """The keys that declare the task ``name`` of rows (see :func:`~workbench.evaluate.tasks.task_file.read_task`).

    Forms, by columns: ``context_options, continuation, gold`` (partial scoring) and ``query, choices, gold`` (multiple
    choice), as llm-foundry has them; ``prompt, chosen, rejected`` (preferences; dialogues need no prompt);
    ``text, candidates, answer`` (a gap ``___`` in the text); ``question, answer`` (free text); ``text, label``
    (classification); ``text`` (perplexity). Other usual names of these columns do too.

    Raises :class:`~workbench.errors.DataError` for rows that are of none of these forms.
    """
    names = list(rows[0])
    for form in FORMS:
        columns = form.found(names)
        if columns is not None:
            about = f"{form.type.replace('_', ' ')}, recognised by the columns of its rows"
            return {"name": name, "type": form.type, "about": about, **_KEYS[form.type](columns, rows, where)}
    wanted = "; ".join(" + ".join(options[0] for options in form.columns) for form in FORMS)
    raise UnknownForm(
        str(where),
        f"{where}: no kind of task has its columns {', '.join(map(repr, names))}; allowed: {wanted}; or declare "
        "it in a YAML file (docs/extending.md)",
    )


def _labels(columns: tuple[str, ...], rows: Sequence[Record], where: object) -> dict[str, Any]:
    text, label = columns
    labels = sorted({class_label(row.get(label), f"{where}, row {n}") for n, row in enumerate(rows, 1)})
    if not 2 <= len(labels) <= _MOST_LABELS:
        raise DataError(f"{where}: column {label!r} has {len(labels)} classes; allowed: 2 to {_MOST_LABELS}")
    return {"prompt": f"{{{text}}}", "label": label, "labels": labels}


def _preferences(columns: tuple[str, ...], rows: Sequence[Record], where: object) -> dict[str, Any]:
    prompt = next((name for name in _PROMPTS if name in rows[0]), None)
    keys = dict(zip(("chosen", "rejected"), columns, strict=True))
    return keys if prompt is None else {**keys, "prompt": prompt}


_KEYS: Mapping[str, Any] = {
    "partial_choice": lambda names, *_: dict(zip(("choices", "continuation", "answer"), names, strict=True)),
    "multiple_choice": lambda names, *_: {
        "prompt": f"{{{names[0]}}}",
        "choices": names[1],
        "answer": names[2],
    },
    "cloze": lambda names, *_: dict(zip(("text", "choices", "answer"), names, strict=True)),
    "generation": lambda names, *_: {"prompt": f"{{{names[0]}}}", "answer": names[1]},
    "classification": _labels,
    "preferences": _preferences,
    "perplexity": lambda names, *_: {"text": names[0]},
}
