"""A store of features on disk: written once as they stream from the model, read through a memory map."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float

from probes.features.policy import Policy
from workbench.errors import DataError
from workbench.folders import folder_by_rename
from workbench.shapes import Array

__all__ = ["Features", "Writer", "writing"]


@dataclass(frozen=True, eq=False)
class Features:
    """Vectors of P places at L layers, and of each place's input embeddings, which know no context.

    ``valid`` is false for places without a token: words that the tokenizer turns into nothing, and those
    beyond the model's length.
    """

    path: Path
    key: str
    model: str
    layers: tuple[int, ...]
    policy: Policy
    dropped: int  # places whose words have no token
    truncated: int  # places beyond the model's length

    @classmethod
    def open(cls, path: str | Path, key: str | None = None) -> Features:
        """Open a store; with ``key``, one of other weights, data or policy is refused.

        Raises :class:`~workbench.errors.DataError` if it is missing, unreadable or of another key.
        """
        path = Path(path)
        try:
            about = json.loads((path / "features.json").read_text(encoding="utf-8"))
            policy = about.pop("policy")
            policy["layers"] = tuple(policy["layers"])
            found = cls(
                path=path,
                policy=Policy(**policy),
                layers=tuple(about.pop("layers")),
                truncated=about["truncated" if "truncated" in about else "cut"],  # its former name
                **{name: about[name] for name in ("key", "model", "dropped")},
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path} is not a feature store: {error}") from error
        if key is not None and found.key != key:
            raise DataError(
                f"the feature store {path} was made from other weights, data or settings "
                f"({found.model}, {found.key[:12]}, not {key[:12]}); name another folder, or leave it out"
            )
        return found

    @cached_property
    def values(self) -> Float[Array, "layer place width"]:
        """The memory map; only what is read comes into memory."""
        return self._array("values.npy")

    @cached_property
    def static(self) -> Float[Array, "place width"]:
        """Mean input embedding of each place's tokens, without position or context."""
        return self._array("static.npy")

    @cached_property
    def valid(self) -> Bool[Array, " place"]:
        """Whether a place has a vector."""
        return np.array(self._array("valid.npy"))

    def layer(self, number: int) -> Float[Array, "place width"]:
        """The vectors of one layer, by its number in the model."""
        if number not in self.layers:
            raise DataError(f"the store holds layers {', '.join(map(str, self.layers))}, not {number}")
        found: Array = self.values[self.layers.index(number)]
        return found

    def _array(self, name: str) -> Array:
        try:
            found: Array = np.load(self.path / name, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise DataError(f"cannot read {self.path / name}: {error}; remove the folder") from error
        return found


class Writer:
    """Rows of a store that is being written, with plain writes: nothing stays mapped in memory."""

    def __init__(self, folder: Path, places: int) -> None:
        self.folder = folder
        self.places = places
        self.valid = np.zeros(places, dtype=bool)
        self._files: dict[str, tuple[int, tuple[int, ...]]] = {}

    def write(self, name: str, first: int, rows: Float[Array, "layer place width"]) -> None:
        """Put ``rows`` at places ``first`` and on, in every layer."""
        layers, _, width = rows.shape
        shape: tuple[int, ...] = (layers, self.places, width) if name == "values" else (self.places, width)
        path = self.folder / f"{name}.npy"
        if name not in self._files:
            self._files[name] = (_create(path, shape), shape)
        offset, shape = self._files[name]
        with path.open("r+b") as file:
            for layer in range(layers):
                file.seek(offset + 4 * width * (layer * self.places + first))
                file.write(np.ascontiguousarray(rows[layer], dtype="<f4").tobytes())

    def finish(self, about: Features) -> None:
        """Write what is no row."""
        np.save(self.folder / "valid.npy", self.valid, allow_pickle=False)
        record = {k: v for k, v in asdict(about).items() if k != "path"}
        (self.folder / "features.json").write_text(json.dumps(record, indent=1), encoding="utf-8")


def _create(path: Path, shape: tuple[int, ...]) -> int:
    """A file of zeros of that shape (sparse on disk) and where its data begins."""
    with path.open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_2_0(file, header)
        offset = file.tell()
        file.truncate(offset + 4 * int(np.prod(shape)))
    return offset


@contextmanager
def writing(target: Path, places: int) -> Iterator[Writer]:
    """A writer whose folder gets its name only when the block ends well.

    Raises :class:`~workbench.errors.DataError` where nothing can be written.
    """
    try:
        with folder_by_rename(target) as temporary:
            yield Writer(temporary, places)
    except OSError as error:
        raise DataError(f"cannot write features to {target}: {error.strerror or error}") from error
