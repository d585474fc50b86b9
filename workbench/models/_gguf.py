"""GGUF files: de-quantised once, then kept as safetensors under the file's content hash.

Config, tokenizer and weights come from one pass over the file, with transformers' tables of names. transformers' own
loading takes three passes, and accelerate, which the base install lacks; it is left those architectures whose tensors
take more than a new name.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError

from workbench.errors import ModelError, needs_extra
from workbench.folders import cached_folder, folder_by_rename
from workbench.models.weights import content_hash
from workbench.pretrained import from_pretrained, reason
from workbench.terminal import say
from workbench.text.gguf import GGUFFile, gguf_tokenizer, read_gguf

__all__ = ["gguf_to_folder"]

# Part of the cache key: raise it when what is written changes.
FORMAT = 1

# Architectures whose configuration is transformers' table and nothing more; each is tested against transformers.
PLAIN = (
    "bloom",
    "falcon",
    "gemma2",
    "gpt2",
    "llama",
    "mamba",
    "nemotron",
    "phi3",
    "qwen2",
    "qwen3",
    "starcoder2",
)
_ALWAYS_TIED = ("bloom", "falcon")


def gguf_to_folder(file: Path, name: str) -> tuple[Path, str]:
    """A folder with the file's model in float32 safetensors and its tokenizer, and the file's SHA-256.

    The conversion runs once per file content and machine, and says so on stderr for the model called ``name``.
    """
    digest = content_hash([file])
    folder = cached_folder("gguf", f"{digest[:32]}-v{FORMAT}")
    if not folder.is_dir():
        say(f"Converting {name} from GGUF, once: kept in {folder}", error=True)
        try:
            with folder_by_rename(folder) as temporary:
                _convert(read_gguf(file), temporary)
        except (OSError, SafetensorError) as error:
            raise ModelError(
                f"cannot keep {name}, converted, in {folder}: {error}; free some space there, or name another "
                "folder with WORKBENCH_CACHE"
            ) from error
    return folder, digest


def _convert(file: GGUFFile, folder: Path) -> None:
    gguf_tokenizer(file).save_pretrained(folder)
    try:
        model = _read(file) if file.architecture in PLAIN else _read_by_transformers(file.path)
    except (KeyError, ValueError, TypeError, IndexError, RuntimeError) as error:
        raise ModelError(f"cannot read GGUF file {file.path}: {reason(error)}") from error
    model.save_pretrained(folder)


def _read(file: GGUFFile) -> Any:
    """The model as it stands in the file."""
    from transformers import AutoModelForCausalLM

    config = _config(file)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    left_out = model.load_state_dict(_weights(file, model), strict=False, assign=True)
    model.tie_weights()
    missing = [key for key, value in model.state_dict().items() if value.is_meta]
    if missing or left_out.unexpected_keys:
        raise ModelError(
            f"GGUF file {file.path} does not hold the tensors of a {file.architecture}: "
            f"{len(missing)} missing, such as {(missing or left_out.unexpected_keys)[0]}"
        )
    return model


def _config(file: GGUFFile) -> Any:
    from transformers import AutoConfig
    from transformers.integrations.ggml import GGUF_CONFIG_MAPPING

    table: dict[str, dict[str, str | None]] = GGUF_CONFIG_MAPPING  # type: ignore[assignment]
    values = {
        name: file.metadata[f"{prefix}.{key}"]
        for prefix in (file.architecture, "tokenizer")
        for key, name in table[prefix].items()
        if name and f"{prefix}.{key}" in file.metadata
    }
    values.setdefault("vocab_size", len(file.metadata.get("tokenizer.ggml.tokens", ())))
    tied = all(tensor.name != "output.weight" for tensor in file.reader.tensors)
    values["tie_word_embeddings"] = tied or file.architecture in _ALWAYS_TIED
    return AutoConfig.for_model(file.architecture, **values)


def _weights(file: GGUFFile, model: Any) -> dict[str, torch.Tensor]:
    """De-quantised tensors by their names in ``model``, laid out as its modules take them."""
    from gguf import dequantize
    from transformers.modeling_gguf_pytorch_utils import TENSOR_PROCESSORS, TensorProcessor

    names = _names(file.architecture, model)
    processor = TENSOR_PROCESSORS.get(file.architecture, TensorProcessor)(config=model.config.to_dict())
    found: dict[str, torch.Tensor] = {}
    for tensor in file.reader.tensors:
        result = processor.process(
            weights=dequantize(
                np.asarray(tensor.data), tensor.tensor_type
            ),  # slices of a memory map cost twice
            name=tensor.name,
            tensor_key_mapping=names,
            parsed_parameters={"tensors": found},
        )
        if result.name in names:
            found[names[result.name]] = torch.from_numpy(result.weights.copy())
    return found


def _names(architecture: str, model: Any) -> dict[str, str]:
    """GGUF's name of each of the model's parameters, which may begin below the outer modules, to its own."""
    from gguf import MODEL_ARCH_NAMES, get_tensor_name_map

    number = next(key for key, value in MODEL_ARCH_NAMES.items() if value == architecture)
    table = get_tensor_name_map(number, model.config.num_hidden_layers)
    names = {}
    for name in model.state_dict():
        stem, dot, ending = name.rpartition(".")
        if ending not in ("weight", "bias"):
            stem, dot, ending = name, "", ""
        parts = stem.split(".")
        shorter = (table.get_name(".".join(parts[start:])) for start in range(len(parts)))
        known = next(filter(None, shorter), None)
        if known is not None:
            names[f"{known}{dot}{ending}"] = name
    return names


def _read_by_transformers(file: Path) -> Any:
    from transformers import AutoModelForCausalLM

    if find_spec("accelerate") is None:
        raise ModelError(needs_extra(f"{file}, none of {', '.join(PLAIN)},", "accelerate", "train"))
    quantised: Any = from_pretrained(
        AutoModelForCausalLM, file.parent, gguf_file=file.name, dtype=torch.float32
    )
    config = quantised.config
    del config.quantization_config
    # The converted model still calls itself quantised and refuses to be saved: move its weights to a plain one.
    with torch.device("meta"):
        plain = type(quantised)(config)
    plain.load_state_dict(quantised.state_dict(), assign=True)
    plain.tie_weights()
    return plain
