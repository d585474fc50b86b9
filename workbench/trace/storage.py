"""Traces on disk: one safetensors file of arrays, one JSON file that says what they are."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file, save_file

from workbench.errors import TraceError
from workbench.folders import folder_by_rename
from workbench.models import Kind
from workbench.shapes import Array
from workbench.text import Alignment
from workbench.trace._trace import Record, TextTrace, Trace
from workbench.trace.attention_hook import Stack

__all__ = ["load_trace", "save_trace"]

_SCHEMA = 1
_ARRAYS, _DESCRIPTION = "arrays.safetensors", "trace.json"


def save_trace(trace: Trace, folder: str | Path, say: Callable[[str], None] = print) -> Path:
    """Write ``trace`` to a new folder, by rename; ``say`` is told the size before anything is written.

    Raises :class:`TraceError` if the folder exists, or the disk has no room.
    """
    folder = Path(folder)
    if folder.exists():
        raise TraceError(f"{folder} exists already; name a new folder")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder.parent).free
    except OSError as error:
        raise TraceError(f"cannot write {folder}: {error.strerror or error}; name another folder") from error
    say(f"writing {trace.nbytes / 2**20:.1f} MiB to {folder}")
    if trace.nbytes > free:
        raise TraceError(
            f"the trace takes {trace.nbytes / 2**20:.1f} MiB, {folder.parent} has {free / 2**20:.1f} MiB free; "
            "record fewer layers or heads: trace(..., layers=[...], heads=[...])"
        )
    arrays = {f"{i}.{name}": array for i, text in enumerate(trace) for name, array in text.arrays().items()}
    with folder_by_rename(folder) as temporary:
        save_file({name: _contiguous(array) for name, array in arrays.items()}, temporary / _ARRAYS)
        description = json.dumps(_describe(trace), ensure_ascii=False)
        (temporary / _DESCRIPTION).write_text(description, encoding="utf-8", newline="\n")
    return folder


def load_trace(folder: str | Path) -> Trace:
    """Read a trace that :func:`save_trace` wrote; raises :class:`TraceError` if it is none."""
    folder = Path(folder)
    try:
        description = json.loads((folder / _DESCRIPTION).read_text(encoding="utf-8"))
        arrays = load_file(folder / _ARRAYS)
    except (OSError, ValueError) as error:
        raise TraceError(f"no trace in {folder}: {error}; expected {_ARRAYS} and {_DESCRIPTION}") from error
    if description.get("schema") != _SCHEMA:
        raise TraceError(
            f"{folder} has trace schema {description.get('schema')}; this version reads {_SCHEMA}"
        )
    return Trace(
        model=description["model"],
        kind=Kind(description["kind"]),
        main=Stack(description["main"]),
        texts=tuple(_text(record, arrays, f"{i}.") for i, record in enumerate(description["texts"])),
        recorded=frozenset(map(Record, description["recorded"])),
        layers=_numbers(description["layers"]),
        heads=_numbers(description["heads"]),
    )


def _contiguous(array: Array) -> Array:
    return array if array.flags.c_contiguous else array.copy()


def _describe(trace: Trace) -> dict[str, Any]:
    return {
        "schema": _SCHEMA,
        "model": trace.model,
        "kind": trace.kind,
        "main": trace.main,
        "recorded": sorted(trace.recorded),
        "layers": dict(trace.layers),
        "heads": dict(trace.heads),
        "texts": [
            {
                "alignment": asdict(text.alignment),
                "source": asdict(text.source) if text.source else None,
                "segment_ids": text.segment_ids,
                "cut": text.cut,
            }
            for text in trace
        ],
    }


def _text(record: dict[str, Any], arrays: dict[str, Array], prefix: str) -> TextTrace:
    own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    return TextTrace(
        alignment=_alignment(record["alignment"]),
        source=_alignment(record["source"]) if record["source"] else None,
        segment_ids=tuple(record["segment_ids"]),
        cut=record["cut"],
        **own,
    )


def _alignment(record: dict[str, Any]) -> Alignment:
    return Alignment(
        text=record["text"],
        tokens=tuple(record["tokens"]),
        ids=tuple(record["ids"]),
        offsets=tuple((start, end) for start, end in record["offsets"]),
        words=tuple((start, end) for start, end in record["words"]),
        word_ids=tuple(record["word_ids"]),
    )


def _numbers(record: dict[str, list[int]]) -> dict[Stack, tuple[int, ...]]:
    return {Stack(stack): tuple(numbers) for stack, numbers in record.items()}
