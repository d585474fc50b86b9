"""A task declared in a YAML file: ``workbench evaluate MODEL --task capitals.yaml``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast
from zlib import crc32

from workbench.data import DataIdentity, Dataset, content_hash
from workbench.data.rows import Choices, Document, Question, TextPair
from workbench.data.source import Record, Source, field_of, label_of
from workbench.data.tables import read_table
from workbench.errors import ConfigError, DataError, did_you_mean
from workbench.evaluate._task import Task
from workbench.evaluate.tasks.task_types import AnsweringTask, MultipleChoice, Perplexity, TextClassification
from workbench.yaml_reader import read_values

__all__ = ["TASK_FILES", "read_task"]

TASK_FILES = (".yaml", ".yml")
_COMMON = ("name", "type", "about", "data", "rows")
Row = TypeVar("Row")


@dataclass(frozen=True, kw_only=True)
class _OwnRows(Source[Any]):
    """The rows that the file holds or names; a data folder is not asked for them."""

    files: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: {"validation": ()})
    place: str
    records_here: tuple[tuple[str, Record], ...]

    def read(self, data_dir: Path | None, split: str = "validation") -> Dataset[Any]:
        """All rows, whatever the split."""
        rows = [
            row
            for number, (where, record) in enumerate(self.records_here)
            for row in self.parse(record, where, f"{self.name}-{number:05d}")
        ]
        identity = DataIdentity(self.name, self.place, content_hash(map(repr, rows)), len(rows))
        return Dataset(tuple(rows), identity)

    def has(self, data_dir: Path | None, split: str) -> bool:
        """There is one split."""
        return split == "validation"


def read_task(path: Path | str) -> Task:
    """The task that a YAML file declares.

    Keys: ``name``, ``type``, ``about``, ``rows`` (a list of mappings) or ``data`` (a JSONL, CSV, TSV or Parquet file,
    relative to the YAML file), and those of the type:

    - ``multiple_choice``: ``prompt``, ``choices`` (templates, or a column with a list), ``answer`` (the number of the
      right one from 0, or a column with it or with its text; 0 by default)
    - ``classification``: ``prompt``, ``labels``, ``label`` (the column, "label" by default), ``words`` (the answers
      that stand for the labels; the labels themselves by default)
    - ``generation``: ``prompt``, ``answer`` (the column of the right answers), ``stop``, ``max_tokens``
    - ``perplexity``: ``text`` (the column, "text" by default)

    Templates name columns in braces: ``"The capital of {country} is"``.

    Raises :class:`~workbench.errors.ConfigError` for what is not of this form, and
    :class:`~workbench.errors.DataError` for unreadable files.

    Example:
        ```python
        from pathlib import Path

        from workbench.evaluate.tasks.task_file import read_task

        lines = ["name: verbs", "type: generation", 'prompt: "{start}"']
        lines += ["rows:", "  - {start: The boys, answer: were}"]
        Path("verbs.yaml").write_text("\\n".join(lines))
        print(read_task("verbs.yaml").load(None).items)
        ```
    """
    file = Path(path)
    values = read_values(file)
    if not isinstance(values, dict):
        raise ConfigError(f"{file} must hold keys such as name and type, is {values!r:.40}")
    _refuse_booleans(values, file)
    kind = values.get("type")
    if kind not in _TYPES:
        raise ConfigError(f"{file}: unknown type {kind!r}; {did_you_mean(str(kind), list(_TYPES))}")
    make, keys = _TYPES[kind]
    for key in values:
        if key not in (*_COMMON, *keys):
            raise ConfigError(f"{file}: unknown key {key!r}; {did_you_mean(str(key), [*_COMMON, *keys])}")
    name = _text(values, "name", file)
    shared = {
        "name": name,
        "about": str(values.get("about", f"declared in {file.name}")),
        "version": crc32(file.read_bytes()),  # a run is not resumed after the file was changed
    }
    return make(_Declared(file, values), shared)


@dataclass(frozen=True)
class _Declared:
    """A file and its keys."""

    file: Path
    values: Mapping[str, Any]

    def text(self, key: str, default: str | None = None) -> str:
        """A key's text."""
        return (
            default if key not in self.values and default is not None else _text(self.values, key, self.file)
        )

    def source(self, parse: Callable[[Record, str, str], Iterable[Any]]) -> Source[Any]:
        """The rows, each made by ``parse``."""
        place, records = self._records()
        if not records:
            raise DataError(f"{self.file} has no rows")
        return _OwnRows(name=self.text("name"), parse=parse, place=place, records_here=records)

    def _records(self) -> tuple[str, tuple[tuple[str, Record], ...]]:
        if ("rows" in self.values) == ("data" in self.values):
            raise ConfigError(f"{self.file}: give the rows under 'rows', or a file of them under 'data'")
        if "data" in self.values:
            path = self.file.parent / self.text("data")
            return str(path), tuple(read_table(path))
        rows = self.values["rows"]
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise ConfigError(f"{self.file}: rows must be a list of mappings from column to value")
        return str(self.file), tuple((f"{self.file}, row {n}", row) for n, row in enumerate(rows, 1))

    def filled(self, template: str, record: Record, where: str) -> str:
        """``template`` with a row's columns."""
        try:
            return template.format_map(record)
        except (KeyError, IndexError, ValueError, AttributeError) as error:
            has = ", ".join(map(str, record))
            raise DataError(
                f"{where}: cannot fill {template!r} ({error!r:.60}); its columns: {has}"
            ) from None


def _refuse_booleans(value: Any, file: Path) -> None:
    """YAML reads yes, no, on and off as true and false, which no key of a task is and an answer may have meant."""
    if isinstance(value, bool):
        raise ConfigError(f"{file}: YAML reads yes, on and true (no, off and false) as {value}; quote it")
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for one in inside:
        _refuse_booleans(one, file)


def _text(values: Mapping[str, Any], key: str, file: Path) -> str:
    if not isinstance(values.get(key), str) or not values[key]:
        raise ConfigError(f"{file}: {key} must be a text, is {values.get(key)!r:.60}")
    return str(values[key])


def _texts(value: Any, key: str, file: Path) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise ConfigError(f"{file}: {key} must be a list of texts, is {value!r:.60}")
    return tuple(map(str, value))


def _multiple_choice(declared: _Declared, shared: dict[str, Any]) -> Task:
    prompt, choices = declared.text("prompt"), declared.values.get("choices")
    answer = declared.values.get("answer", 0)

    def parse(record: Record, where: str, name: str) -> list[Choices]:
        if isinstance(choices, str):
            found = tuple(map(str, _listed(field_of(record, where, choices))))
        else:
            templates = _texts(choices, "choices", declared.file)
            found = tuple(declared.filled(template, record, where) for template in templates)
        gold = answer if isinstance(answer, int) else field_of(record, where, str(answer))
        question = declared.filled(prompt, record, where)
        return [Choices(name, question, found, (label_of(gold, found, where),))]

    return MultipleChoice(source=declared.source(parse), prompt=lambda row: row.question, **shared)


def _classification(declared: _Declared, shared: dict[str, Any]) -> Task:
    prompt, column = declared.text("prompt"), declared.text("label", "label")
    labels = _texts(declared.values.get("labels"), "labels", declared.file)
    words = _texts(declared.values.get("words", list(labels)), "words", declared.file)
    if len(words) != len(labels):
        raise ConfigError(f"{declared.file}: {len(labels)} labels, {len(words)} words; one for each")

    def parse(record: Record, where: str, name: str) -> list[TextPair]:
        gold = label_of(field_of(record, where, column), labels, where)
        return [TextPair(name, declared.filled(prompt, record, where), None, gold)]

    stripped = tuple(word.strip() for word in words)
    source = declared.source(parse)
    return TextClassification(
        source=source, labels=labels, words=stripped, prompt=lambda row: row.text, **shared
    )


def _generation(declared: _Declared, shared: dict[str, Any]) -> Task:
    prompt, column = declared.text("prompt"), declared.text("answer", "answer")
    stop, most = declared.values.get("stop", "\n"), declared.values.get("max_tokens", 64)
    if not isinstance(most, int) or most < 1:
        raise ConfigError(f"{declared.file}: max_tokens must be a whole number from 1, is {most!r:.40}")

    def parse(record: Record, where: str, name: str) -> list[Question]:
        answers = tuple(map(str, _listed(field_of(record, where, column))))
        return [Question(name, "", declared.filled(prompt, record, where), answers)]

    return AnsweringTask(
        source=declared.source(parse),
        prompt=lambda row: row.question,
        stop=tuple(map(str, _listed(stop))),
        max_tokens=most,
        **shared,
    )


def _perplexity(declared: _Declared, shared: dict[str, Any]) -> Task:
    column = declared.text("text", "text")

    def parse(record: Record, where: str, name: str) -> list[Document]:
        text = str(field_of(record, where, column))
        return [Document(name, text, len(text.split()), len(text.encode()))]

    return Perplexity(source=declared.source(parse), **shared)


def _listed(value: Any) -> Sequence[Any]:
    return cast("Sequence[Any]", value) if isinstance(value, list | tuple) else [value]


_TYPES: dict[str, tuple[Callable[[_Declared, dict[str, Any]], Task], tuple[str, ...]]] = {
    "multiple_choice": (_multiple_choice, ("prompt", "choices", "answer")),
    "classification": (_classification, ("prompt", "labels", "label", "words")),
    "generation": (_generation, ("prompt", "answer", "stop", "max_tokens")),
    "perplexity": (_perplexity, ("text",)),
}
