"""A task declared in a YAML file, or a table of its rows: ``workbench evaluate MODEL --task capitals.yaml``."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zlib import crc32

from workbench.data.hub import is_hub_name
from workbench.data.tables import Rows, read_table, records_of, table_name
from workbench.errors import ConfigError, DataError, did_you_mean
from workbench.evaluate._task import Task
from workbench.evaluate.tasks.declared import Declared, text_key
from workbench.evaluate.tasks.declared_types import TYPES
from workbench.evaluate.tasks.table_task import TABLE_FILES, declared_by
from workbench.yaml_reader import read_values

__all__ = ["is_task_file", "own_task", "read_task"]

_YAML = (".yaml", ".yml")
_COMMON = ("name", "type", "about", "data", "rows")


def is_task_file(name: str) -> bool:
    """Whether ``name`` is of a file that declares a task, of a table of its rows, or of a data set on the hub."""
    return is_hub_name(name) or name.endswith((*_YAML, *TABLE_FILES))


def read_task(path: Path | str) -> Task:
    """The task that a YAML file declares, or that a table of rows is (:func:`~.table_task.declared_by`).

    Keys: ``name``, ``type``, ``about``, ``rows`` (a list of mappings) or ``data`` (a JSONL, CSV, TSV or Parquet file,
    relative to the YAML file, or ``hub:owner/name:configuration:split``), and those of the type:

    - ``multiple_choice``: ``prompt``, ``choices`` (templates, or a column with a list), ``answer`` (the number of the
      right one from 0, or a column with it or with its text; 0 by default)
    - ``classification``: ``prompt``, ``labels``, ``label`` (the column, "label" by default), ``words`` (the answers
      that stand for the labels; the labels themselves by default)
    - ``partial_choice``: ``choices`` (the column with a list of contexts), ``continuation``, ``answer`` as above
    - ``cloze``: ``text`` (the column, with ``___`` where something is missing), ``choices`` (the column with what may
      stand there), ``answer`` (the column with the right ones)
    - ``generation``: ``prompt``, ``answer`` (the column of the right answers), ``stop``, ``max_tokens``, ``metrics``
      (of exact_match, f1, bleu, chrf, rouge1, rouge2, rougeL, rougeLsum; the first two by default), ``pattern`` (a
      regular expression: what it finds first, or its first group, is the answer)
    - ``perplexity``: ``text`` (the column, "text" by default)
    - ``preferences``: ``chosen`` and ``rejected`` (the columns, so called by default), ``prompt`` (the column of the
      prompt; none where the replies are whole dialogues)

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
    if is_hub_name(path):
        return own_task([row for _, row in read_table(path)], table_name(path))
    values = read_values(file) if file.suffix in _YAML else _of_table(file)
    return _made(values, file, crc32(file.read_bytes()))


def own_task(rows: Rows, name: str = "rows", **keys: Any) -> Task:
    """The task that rows in memory are: a pandas DataFrame, a ``datasets.Dataset``, or mappings.

    Its type is recognised by the columns, as that of a table, or declared by ``keys``, as in a YAML file
    (:func:`read_task`): ``type="generation", prompt="Q: {question}"``. Raises as :func:`read_task` does.

    Example:
        ```python
        import pandas as pd
        import workbench
        from workbench.evaluate import own_task

        frame = pd.DataFrame({"query": ["The sky is", "Grass is"], "choices": [["blue", "wet"], ["green", "red"]]})
        task = own_task(frame.assign(gold=0), "colours")
        print(workbench.evaluate("novels-decoder", tasks=task, doctor=False).to_frame())
        ```
    """
    records = records_of(rows, name)
    declared = {"name": name} if "type" in keys else declared_by(records, name, name)
    return _made({**declared, **keys, "rows": records}, Path(name), crc32(repr((keys, records)).encode()))


def _of_table(file: Path) -> dict[str, Any]:
    rows = [row for _, row in read_table(file)]
    if not rows:
        raise DataError(f"{file} has no rows")
    return {**declared_by(rows, file, file.stem), "data": file.name}


def _made(values: Any, file: Path, version: int) -> Task:
    """The task; ``version`` changes with the rows, so that a run is not resumed after that."""
    if not isinstance(values, dict):
        raise ConfigError(f"{file} must hold keys such as name and type, is {values!r:.40}")
    if file.suffix in _YAML:
        _refuse_booleans(values, file)
    kind = values.get("type")
    if kind not in TYPES:
        raise ConfigError(f"{file}: unknown type {kind!r}; {did_you_mean(str(kind), list(TYPES))}")
    make, keys = TYPES[kind]
    for key in values:
        if key not in (*_COMMON, *keys):
            raise ConfigError(f"{file}: unknown key {key!r}; {did_you_mean(str(key), [*_COMMON, *keys])}")
    about = str(values.get("about", f"declared in {file.name}"))
    declared = Declared(file, values)
    shared = {"name": text_key(values, "name", file), "about": about, "version": version}
    return make(declared, {**shared, "columns": declared.columns()})


def _refuse_booleans(value: Any, file: Path) -> None:
    """YAML reads yes, no, on and off as true and false, which no key of a task is and an answer may have meant."""
    if isinstance(value, bool):
        raise ConfigError(f"{file}: YAML reads yes, on and true (no, off and false) as {value}; quote it")
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for one in inside:
        _refuse_booleans(one, file)
