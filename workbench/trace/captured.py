"""A capture, in memory or in a folder of its own: written as the values come, read through a memory map."""

from __future__ import annotations

import json
import shutil
import weakref
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pandas as pd
from jaxtyping import Float

from workbench.errors import TraceError
from workbench.folders import cached_folder, folder_by_rename
from workbench.shapes import Array
from workbench.terminal import counted
from workbench.trace.attention_hook import Stack
from workbench.trace.interventions import Site

__all__ = ["Capture", "CaptureOf", "collect", "load_capture"]

_LARGEST = 256 * 2**20  # bytes that are kept in memory where no folder is named
_VALUES, _DESCRIPTION = "values.safetensors", "capture.json"
_SCHEMA = 1


@dataclass(frozen=True, eq=False, repr=False)
class Capture:
    """What a model computes at one site, at some layers and positions of some texts.

    ``values[i, j]`` is of layer ``layers[i]`` at place ``j``: row ``j`` of ``places``, which has those of all texts one
    after another (text, position, token, word). A value is a vector of the model's width, or (head, head width) of
    ``head_output``; float32, or float64 of such a model. Where ``path`` is a folder, it is read from there when used.
    """

    model: str
    site: Site
    stack: Stack
    layers: tuple[int, ...]
    values: Float[Array, "layer place ..."]
    places: pd.DataFrame
    texts: int
    path: Path | None = None

    def __len__(self) -> int:
        return self.texts

    def __getitem__(self, text: int) -> Float[Array, "layer place ..."]:
        """The values of one text, by its number."""
        if not -self.texts <= text < self.texts:
            raise IndexError(f"text {text} is out of range: 0 to {self.texts - 1}")
        first, last = np.searchsorted(self.places["text"], [text % self.texts, text % self.texts + 1])
        found: Array = self.values[:, first:last]
        return found

    def layer(self, number: int) -> Float[Array, "place ..."]:
        """The values of one layer at all places, by its number in the model."""
        if number not in self.layers:
            raise TraceError(f"layer {number} was not captured; there are {', '.join(map(str, self.layers))}")
        found: Array = self.values[self.layers.index(number)]
        return found

    def to_frame(self) -> pd.DataFrame:
        """One row a layer and place: layer, text, position, token, word, and a column for each number of the value."""
        places = pd.concat([self.places] * len(self.layers), ignore_index=True)
        places.insert(0, "layer", np.repeat(self.layers, len(self.places)))
        width = self.values.shape[2:]
        names = [".".join(map(str, place)) for place in np.ndindex(width)]
        return places.join(pd.DataFrame(self.values.reshape(len(places), -1), columns=names))

    def __repr__(self) -> str:
        width = " x ".join(map(str, self.values.shape[2:]))
        where = "" if self.path is None else f", in {self.path}"
        return (
            f"<Capture of {self.model}: {self.site} of {counted(len(self.layers), 'layer')}, "
            f"{counted(self.texts, 'text')}, {counted(len(self.places), 'place')} of {width}, "
            f"{self.values.nbytes / 2**20:.1f} MiB{where}>"
        )


@dataclass(frozen=True)
class CaptureOf:
    """What a capture is of."""

    model: str
    site: Site
    stack: Stack
    layers: tuple[int, ...]
    texts: int


def collect(
    about: CaptureOf, found: Iterator[tuple[int, Array]], places: pd.DataFrame, folder: Path | None
) -> Capture:
    """The capture, in memory or, where it is large or ``folder`` is named, in a folder."""
    first = next(found)
    values = first[1]
    shape, dtype = (len(about.layers), len(places), *values.shape[2:]), values.dtype
    size = int(np.prod(shape)) * dtype.itemsize
    if folder is None and size <= _LARGEST:
        whole = np.empty(shape, dtype)
        for start, part in chain([first], found):
            whole[:, start : start + part.shape[1]] = part
        return Capture(**vars(about), values=whole, places=places)
    target = folder or cached_folder("captures", uuid4().hex)
    try:
        with folder_by_rename(target) as temporary:
            _check_room(temporary, size)
            _write_values(temporary / _VALUES, shape, dtype, chain([first], found))
            rows = places.astype(object).where(places.notna(), None).to_dict("list")
            described = {"schema": _SCHEMA, **asdict(about), "places": rows}
            (temporary / _DESCRIPTION).write_text(json.dumps(described, allow_nan=False), encoding="utf-8")
    except OSError as error:
        raise TraceError(f"cannot write {target}: {error.strerror or error}; name another folder") from error
    captured = load_capture(target)
    if folder is None:
        weakref.finalize(captured, shutil.rmtree, target, ignore_errors=True)
    return captured


def _check_room(folder: Path, size: int) -> None:
    free = shutil.disk_usage(folder).free
    if size > free:
        raise TraceError(
            f"the values take {size / 2**20:.1f} MiB, {folder.parent} has {free / 2**20:.1f} MiB free; capture fewer "
            "layers or positions, or name another folder: out=..."
        )


_TYPES: dict[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "F64": np.dtype("<f8")}  # safetensors' names


def _write_values(
    file: Path, shape: tuple[int, ...], dtype: np.dtype[Any], found: Iterator[tuple[int, Array]]
) -> None:
    """A safetensors file of one tensor ``values``, filled as the rows come, with plain writes."""
    name, stored = next((name, kind) for name, kind in _TYPES.items() if kind.itemsize == dtype.itemsize)
    row = int(np.prod(shape[2:])) * dtype.itemsize
    tensor = {"dtype": name, "shape": list(shape), "data_offsets": [0, shape[0] * shape[1] * row]}
    header = json.dumps({"values": tensor}).encode()
    header += b" " * (-len(header) % 8)
    with file.open("wb") as out:
        out.write(len(header).to_bytes(8, "little") + header)
        start = out.tell()
        for first, values in found:
            for layer, part in enumerate(values):
                out.seek(start + (layer * shape[1] + first) * row)
                out.write(part.astype(stored, copy=False).tobytes())


def load_capture(folder: str | Path) -> Capture:
    """A capture from the folder that :func:`capture` wrote; its values come into memory as they are used.

    Raises :class:`TraceError` if there is none.

    Example:
        ```python
        import workbench

        workbench.capture("novels-decoder", "She was", "mlp", 1, out="mlp")
        print(workbench.trace.load_capture("mlp"))
        ```
    """
    folder = Path(folder)
    try:
        about = json.loads((folder / _DESCRIPTION).read_text(encoding="utf-8"))
        if about.pop("schema") != _SCHEMA:
            raise ValueError("it is of another version")
        places = pd.DataFrame(about.pop("places")).astype({"word_number": "Int64"})
        about = {**about, "site": Site(about["site"]), "stack": Stack(about["stack"])}
        return Capture(
            **{**about, "layers": tuple(about["layers"])},
            values=_mapped(folder / _VALUES),
            places=places,
            path=folder,
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TraceError(f"no capture in {folder}: {error}; expected {_VALUES} and {_DESCRIPTION}") from error


def _mapped(file: Path) -> Float[Array, "layer place ..."]:
    """The tensor ``values`` of a safetensors file as a memory map."""
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        tensor = json.loads(opened.read(length))["values"]
    shape, start = tuple(tensor["shape"]), 8 + length + tensor["data_offsets"][0]
    return np.memmap(file, _TYPES[tensor["dtype"]], "r", start, shape)
