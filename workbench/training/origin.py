"""The model that training begins with: the name to load it by, its identity, the longest text that it reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from workbench.errors import ModelError
from workbench.models import LoadedModel
from workbench.models.loading import load, locate
from workbench.models.weights import content_hash

__all__ = ["folder_of", "longest_input", "model_identity"]


def folder_of(model: LoadedModel) -> str:
    """The name to load ``model`` by again; raises :class:`~workbench.errors.ModelError` if that were another."""
    if model.path is None or load(model.name, model.revision, model.dtype).content_hash != model.content_hash:
        raise ModelError(
            f"{model.name} is not as its files are; write it with model.model.save_pretrained(FOLDER) and "
            "model.tokenizer.save_pretrained(FOLDER), and give the folder"
        )
    return model.name


def model_identity(model: str) -> dict[str, str]:
    """Name and, of a local folder, the hash of its weights."""
    weights = Path(locate(model))
    return {
        "name": model,
        **({"sha256": content_hash(weights.glob("*.safetensors"))} if weights.is_dir() else {}),
    }


def longest_input(model: Any, tokenizer: Any) -> int:
    """The most tokens that a model reads, as its configuration and its tokenizer say; 512 where neither does."""
    config = model.config.get_text_config()
    limits = [getattr(config, n, None) for n in ("max_position_embeddings", "n_positions")]
    known = [int(n) for n in [*limits, tokenizer.model_max_length] if n and n < 10**9]
    offset = (config.pad_token_id or 0) + 1 if "roberta" in config.model_type else 0
    return min(known, default=512) - offset
