"""What a model's folder must hold before it is opened, whether its configuration fits, and how to convert pickles."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from workbench.errors import ModelError
from workbench.models._adapters import ADAPTER_WEIGHTS, has_adapter
from workbench.models.built_in import BuiltInConfig
from workbench.text.load import holds_tokenizer

__all__ = ["check_config", "check_folder", "check_weights", "refuse_pickle"]

_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")


def check_folder(folder: Path) -> None:
    """Raise :class:`~workbench.errors.ModelError` for a folder that holds no model, or pickled weights only."""
    if has_adapter(folder):
        if not (folder / ADAPTER_WEIGHTS).is_file():
            _refuse_pickles_in(folder)
            raise ModelError(f"folder {folder} holds an adapter_config.json but no {ADAPTER_WEIGHTS}")
    elif not (folder / "config.json").is_file():
        raise ModelError(
            f"folder {folder} holds no config.json; a model folder has config.json and *.safetensors"
        )
    elif not isinstance(_config(folder), dict):
        raise ModelError(
            f"{folder / 'config.json'} is not a JSON object; write the model's configuration anew"
        )
    elif not any(folder.glob("*.safetensors")):
        _refuse_pickles_in(folder)
        raise ModelError(f"folder {folder} holds no *.safetensors weights")


def _refuse_pickles_in(folder: Path) -> None:
    if any(path for pattern in _PICKLES for path in folder.glob(pattern)):
        raise ModelError(
            f"folder {folder} holds only pickle weights, which can run code when read; {_advice(folder)}"
        )


def refuse_pickle(path: Path) -> ModelError:
    """The error for a pickle file that was named as a model."""
    return ModelError(f"{path} is a pickle checkpoint, which can run code when read; {_advice(path.parent)}")


def _advice(folder: Path) -> str:
    """A command that converts what lies in ``folder``, head and tokenizer with it, as far as one can."""
    if (folder / "adapter_model.bin").is_file():
        pickled, plain = str(folder / "adapter_model.bin"), str(folder / ADAPTER_WEIGHTS)
        code = f"save_file(torch.load({pickled!r}, weights_only=True), {plain!r}, {{'format': 'pt'}})"
        return _trusted(f"import torch; from safetensors.torch import save_file; {code}")
    name = _architecture(folder)
    if name is None or not any(folder.glob("pytorch_model*.bin")):
        return (
            "make a folder of it with transformers' save_pretrained, which needs config.json and "
            "pytorch_model.bin beside each other, and name that folder"
        )
    classes = [name, "AutoTokenizer"] if holds_tokenizer(folder) else [name]
    old, new = str(folder), f"{folder}-safetensors"
    steps = [f"{one}.from_pretrained({old!r}).save_pretrained({new!r})" for one in classes]
    return _trusted(f"from transformers import {', '.join(classes)}; {'; '.join(steps)}")


def _trusted(code: str) -> str:
    return f"convert it where you trust it: python -c {shlex.quote(code)}"


def _architecture(folder: Path) -> str | None:
    """The class that config.json names, which has the checkpoint's head; ``AutoModel`` if it names none."""
    config = _config(folder)
    named = config.get("architectures") if isinstance(config, dict) else None
    name = named[0] if isinstance(named, list) and named else "AutoModel"
    # The name becomes part of a command line that a user pastes.
    return name if config and isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9_]+", name) else None


def _config(folder: Path) -> Any:
    """What config.json holds; ``None`` if it cannot be read."""
    try:
        return json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


_COUNTS = (
    "num_hidden_layers",
    "num_attention_heads",
    "hidden_size",
    "vocab_size",
    "encoder_layers",
    "decoder_layers",
    "encoder_attention_heads",
    "decoder_attention_heads",
    "num_decoder_layers",
)


def check_config(config: Any, location: str) -> None:
    """Raise :class:`~workbench.errors.ModelError` for a model of no layers, heads, width or vocabulary."""
    text_config = config.get_text_config()
    if isinstance(text_config, BuiltInConfig):  # it checks itself; some have no attention, or no layers
        return
    for name in _COUNTS:
        value = getattr(text_config, name, None)
        if isinstance(value, int) and value < 1:
            written = text_config.attribute_map.get(name, name)  # n_layer, where that is GPT-2's own name
            raise ModelError(f"{location}/config.json: {written} is {value}; allowed: 1 or more")
    named = config.architectures
    if named is not None and not (isinstance(named, list) and all(isinstance(one, str) for one in named)):
        raise ModelError(
            f"{location}/config.json: architectures is {named!r:.60}; allowed: a list of class names"
        )


def check_weights(model: Any, unexpected: Iterable[str], location: str) -> None:
    """Raise :class:`~workbench.errors.ModelError` for a checkpoint with more layers than the model loaded.

    A weight that the model did not load is fine (another head); one whose name differs from a loaded one by its number
    in the model belongs to a layer that config.json does not count.
    """
    known = {re.sub(r"\.\d+\.", ".N.", name) for name in model.state_dict()}
    for name in sorted(unexpected):
        if re.search(r"\.\d+\.", name) and re.sub(r"\.\d+\.", ".N.", name) in known:
            raise ModelError(
                f"{location}/config.json describes fewer layers than the weights hold: {name} and others would "
                "be left out; correct the number of layers"
            )
