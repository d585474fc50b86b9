"""GGUF files: de-quantised once, then kept as safetensors under the file's content hash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from workbench.errors import ModelError
from workbench.models._files import cache_dir, content_hash, folder_by_rename
from workbench.pretrained import from_pretrained

__all__ = ["gguf_to_folder"]

# Part of the cache key: raise it when what is written changes.
FORMAT = 1


def gguf_to_folder(file: Path) -> tuple[Path, str]:
    """A folder with the file's model in float32 safetensors and its tokenizer, and the file's SHA-256.

    The conversion (some 15 s for 135 M parameters) runs once per file content and machine.
    """
    digest = content_hash([file])
    folder = cache_dir() / "gguf" / f"{digest[:32]}-v{FORMAT}"
    if not folder.is_dir():
        with folder_by_rename(folder) as temporary:
            _convert(file, temporary)
    return folder, digest


def _convert(file: Path, folder: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        tokenizer = from_pretrained(AutoTokenizer, file.parent, gguf_file=file.name)
        quantised: Any = from_pretrained(
            AutoModelForCausalLM, file.parent, gguf_file=file.name, dtype=torch.float32
        )
    except (OSError, ValueError, KeyError, NotImplementedError) as error:
        raise ModelError(f"cannot read GGUF file {file}: {_first_line(error)}") from error
    config = quantised.config
    del config.quantization_config
    # The converted model still calls itself quantised and refuses to be saved: move its weights to a plain one.
    with torch.device("meta"):
        plain = type(quantised)(config)
    plain.load_state_dict(quantised.state_dict(), assign=True)
    plain.tie_weights()
    plain.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
