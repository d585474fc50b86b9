"""GGUF files: metadata and tensors from one pass over the header, and the tokenizer that the metadata describes."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gguf import GGUFReader, GGUFValueType

from workbench.errors import ModelError
from workbench.pretrained import reason

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["GGUFFile", "gguf_tokenizer", "read_gguf"]

_WORD = struct.Struct("=Q").unpack_from
# transformers' names for the tokens that have a role, and GGUF's for their ids
_ROLES = {
    "bos_token": "bos_token_id",
    "eos_token": "eos_token_id",
    "unk_token": "unknown_token_id",
    "pad_token": "padding_token_id",
}


class _Reader(GGUFReader):
    """gguf's reader, but an array of metadata is read whole, since a vocabulary has tens of thousands of entries."""

    def _get_field_parts(self, orig_offs: int, raw_type: int) -> tuple[int, list[Any], list[int], list[Any]]:
        if raw_type != GGUFValueType.ARRAY or self.byte_order != "I":
            return super()._get_field_parts(orig_offs, raw_type)
        item, count = self._get(orig_offs, "u4"), self._get(orig_offs + 4, "u8")
        start, kind = orig_offs + 12, GGUFValueType(item[0])
        types = [GGUFValueType.ARRAY, kind] if count[0] else [GGUFValueType.ARRAY]
        if kind is GGUFValueType.STRING:
            strings, end = _strings(self.data.data, start, int(count[0]))
            return end - orig_offs, [item, count, *strings], list(range(2, 2 + len(strings))), types
        if kind not in self.gguf_scalar_to_np:
            return super()._get_field_parts(orig_offs, raw_type)
        values = self._get(start, self.gguf_scalar_to_np[kind], int(count[0]))
        return 12 + values.nbytes, [item, count, values], [2], types


def _strings(data: memoryview, at: int, count: int) -> tuple[list[memoryview], int]:
    found = []
    for _ in range(count):
        (length,) = _WORD(data, at)
        found.append(data[at + 8 : at + 8 + length])
        at += 8 + length
    return found, at


@dataclass(frozen=True)
class GGUFFile:
    """An open file: its tensors lie in a memory map and are read where they are used."""

    path: Path
    reader: GGUFReader

    @cached_property
    def metadata(self) -> Mapping[str, Any]:
        """Keys and values as the file has them."""
        return {name: field.contents() for name, field in self.reader.fields.items()}

    @property
    def architecture(self) -> str:
        """The family by its GGUF name, such as ``llama``."""
        return str(self.metadata["general.architecture"])


def read_gguf(path: Path) -> GGUFFile:
    """Open a GGUF file; raises :class:`~workbench.errors.ModelError` if it is none, or broken."""
    try:
        file = GGUFFile(path, _Reader(path))
        missing = {"general.architecture"} - set(file.metadata)
    except Exception as error:  # a broken file can raise anything
        raise ModelError(f"cannot read GGUF file {path}: {reason(error)}") from error
    if missing:
        raise ModelError(f"cannot read GGUF file {path}: its metadata lacks general.architecture")
    return file


def gguf_tokenizer(file: GGUFFile) -> PreTrainedTokenizerBase:
    """The file's tokenizer, as ``transformers.AutoTokenizer.from_pretrained(gguf_file=...)`` makes it.

    Raises :class:`~workbench.errors.ModelError` if the file has none, or one of an unknown kind.
    """
    from transformers import PreTrainedTokenizerFast
    from transformers.integrations.gguf.gguf_tokenizer_mapping import (
        GGUF_TOKENIZER_MAPPING,
        convert_gguf_tokenizer,
    )

    parts, settings = (
        {
            name: file.metadata[f"tokenizer.{key}"]
            for key, name in GGUF_TOKENIZER_MAPPING[group].items()
            if f"tokenizer.{key}" in file.metadata
        }
        for group in ("tokenizer", "tokenizer_config")
    )
    try:
        tokens = parts["tokens"]
        if (
            parts.get("tokenizer_type") == "llama"
        ):  # a sentencepiece vocabulary begins texts if it says nothing
            settings.setdefault("add_bos_token", True)
        ids = {role: file.metadata.get(f"tokenizer.ggml.{key}") for role, key in _ROLES.items()}
        roles = {role: None if number is None else tokens[number] for role, number in ids.items()}
        backend, _ = convert_gguf_tokenizer(file.architecture, parts)
        return PreTrainedTokenizerFast(tokenizer_object=backend, **settings, **roles)
    except Exception as error:  # tokenizers raises the bare Exception
        raise ModelError(f"cannot read the tokenizer in GGUF file {file.path}: {reason(error)}") from error
