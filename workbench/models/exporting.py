"""Built-in models in an original architecture, so that plain transformers opens them: the inverse of the imports."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import transformers

from workbench.errors import ModelError
from workbench.folders import folder_by_rename
from workbench.models._loaded import LoadedModel
from workbench.models.base import TransformerPreTrainedModel
from workbench.models.built_in import BuiltInConfig
from workbench.models.configuration import TransformerConfig
from workbench.models.imports import FAMILIES, ModelFamily, family_of
from workbench.models.imports.originals import original_config
from workbench.pretrained import quiet

__all__ = ["export_model", "to_original"]

_TOLERANCE = 1e-5  # of the largest entry
_LENGTH = 16
# Settings of training alone, and those that decide nothing where positions are of another kind.
_OF_TRAINING = (
    "dropout",
    "classifier_dropout",
    "initializer_range",
    "tie_word_embeddings",
    "embeddings.frozen_padding",
)
# What is absent here and can be zero there: biases, and the one vector of a table of segments.
_ZEROS = (
    *((f"{part}.bias", False, True) for part in ("attention", "feed_forward", "head")),
    ("attention.output_bias", False, True),
    ("embeddings.segments", 0, 1),
)
_OF_POSITIONS = {
    "learned": ("max_length", "offset", "skip_padding"),
    "rotary": ("base", "interleaved", "fraction"),
    "relative": ("buckets", "max_distance"),
}


def export_model(model: LoadedModel, folder: Path | str) -> str:
    """Write ``model`` and its tokenizer to ``folder`` as transformers' own class, whose name is returned.

    ``transformers.AutoModel….from_pretrained(folder)`` opens it without this package. Outputs are compared before
    anything is written. Raises :class:`~workbench.errors.ModelError` as :func:`to_original` does, and for a folder that
    holds something.

    Example:
        ```python
        import workbench
        from workbench.models.exporting import export_model

        print(export_model(workbench.load("novels-decoder"), "plain"))
        ```
    """
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ModelError(f"{folder} is there already; name a new folder")
    original = to_original(model.model)
    if folder.is_dir():
        folder.rmdir()
    with quiet(), folder_by_rename(folder) as place:
        original.save_pretrained(place)
        if model.tokenizer is not None:
            model.tokenizer.save_pretrained(place)
    return type(original).__name__


def to_original(builtin: Any) -> Any:
    """The same model in transformers' code: the inverse of :func:`~workbench.models.imports.to_builtin`.

    Raises :class:`~workbench.errors.ModelError` for a model that is no built-in one, where no original architecture is
    equal (naming the settings in which the nearest one differs), and where outputs differ by more than 1e-5 of the
    largest.
    """
    if isinstance(builtin.config, BuiltInConfig) and not isinstance(builtin, TransformerPreTrainedModel):
        raise ModelError(
            f"{type(builtin).__name__} is of no architecture in transformers, so it cannot be written as one; its own "
            "folder opens wherever this package is imported (import workbench.models.auto)"
        )
    if not isinstance(builtin, TransformerPreTrainedModel):
        raise ModelError(
            f"{type(builtin).__name__} is no built-in model: plain transformers opens it as it is, without an export"
        )
    family, config = _equal_family(builtin)
    original = getattr(transformers, _class_name(family, config, builtin) or "")(config)
    original.to(builtin.device, builtin.dtype).eval()
    _copy(builtin, original, family)
    if builtin.can_generate():
        original.generation_config = builtin.generation_config
    _compare(builtin, original)
    return original


def _equal_family(builtin: Any) -> tuple[ModelFamily, Any]:
    """The family that a configuration is of, with its own; the nearest is named where none is."""
    nearest: list[tuple[int, str, list[str]]] = []
    for name in FAMILIES:
        family = family_of(name)
        if type(builtin) not in family.classes.values():
            continue
        original = original_config(name, builtin.config)
        if original is None:
            continue
        class_name = _class_name(family, original, builtin)
        if class_name is None:
            continue
        differing = _differences(builtin.config, family.config(original, class_name))
        if not differing:
            original.id2label, original.label2id = builtin.config.id2label, builtin.config.label2id
            original.problem_type = builtin.config.problem_type
            return family, original
        nearest.append((len(differing), name, differing))
    if not nearest:
        raise ModelError(f"no original architecture has a counterpart of {type(builtin).__name__}")
    _, name, differing = min(nearest)
    raise ModelError(
        f"no original architecture is equal; the nearest, {name}, differs: {', '.join(differing[:4])}"
    )


def _class_name(family: ModelFamily, config: Any, builtin: Any) -> str | None:
    """Transformers' class with this configuration whose counterpart the model is."""
    for name, ours in family.classes.items():
        if ours is type(builtin) and getattr(transformers, name).config_class is type(config):
            return name
    return None


def _differences(ours: TransformerConfig, theirs: TransformerConfig) -> list[str]:
    here, there = _resolved(ours), _resolved(theirs)
    if here["positions.kind"] != there["positions.kind"]:
        here = {
            name: value
            for name, value in here.items()
            if name == "positions.kind" or "positions." not in name
        }
    return [
        f"{name} is {value!r} (there {there.get(name)!r})"
        for name, value in here.items()
        if value != there.get(name) and (name, value, there.get(name)) not in _ZEROS
    ]


def _resolved(config: TransformerConfig) -> dict[str, Any]:
    """The settings that decide what a model computes, by dotted name, with defaults filled in."""
    whole = config.positions.kind
    filled = {
        "attention": replace(
            config.attention,
            head_size=config.head_dim,
            key_value_heads=config.num_key_value_heads,
            scaling=config.head_dim**-0.5 if config.attention.scaling is None else config.attention.scaling,
        ),
        "embeddings": replace(config.embeddings, size=config.embeddings.size or config.hidden_size),
        "depth": replace(
            config.depth, decoder_layers=config.num_hidden_layers if config.is_encoder_decoder else None
        ),
    }
    found: dict[str, Any] = {"model_type": config.model_type, "positions.kind": whole}
    for name, value in config.settings().items():
        part = filled.get(name, getattr(config, name, None))
        fields = vars(part) if isinstance(value, dict) else {"": value}
        for field, setting in fields.items():
            kept = name != "positions" or field in ("kind", *_OF_POSITIONS.get(whole, ()))
            if kept and field != "dropout":
                found[f"{name}.{field}".rstrip(".")] = setting
    if config.model_type != "workbench-encoder":
        found.pop("head.pooler", None)
    return {
        name: value
        for name, value in found.items()
        if name not in _OF_TRAINING and not name.endswith("_token_id")
    }


def _copy(builtin: Any, original: Any, family: ModelFamily) -> None:
    """Fill each weight of the original from where its entries lie in ours: numbers are translated in its place."""
    own = builtin.state_dict(keep_vars=True)
    read, unfilled = set(), []
    with torch.no_grad():
        for name, weight in original.state_dict().items():
            entries = torch.arange(weight.numel(), device=weight.device).view(weight.shape)
            for ours, places in family.translate(original, {name: entries}).items():
                value = own.get(ours)
                if value is None and not ours.endswith((".bias", "segments.weight")):
                    unfilled.append(ours)
                read.add(id(value))
                weight.view(-1)[places.flatten()] = 0 if value is None else value.flatten()
    lost = [name for name, tensor in own.items() if id(tensor) not in read]
    if lost or unfilled:
        raise ModelError(f"{type(original).__name__} has no place for {lost[:3]} and needs {unfilled[:3]}")


def _compare(builtin: Any, original: Any) -> None:
    """Raise :class:`~workbench.errors.ModelError` where both do not give the same outputs for drawn tokens."""
    config = builtin.config
    length = min(_LENGTH, config.positions.max_length)
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(0, config.vocab_size, (2, length), generator=generator).to(builtin.device)
    given = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if config.is_encoder_decoder:
        given["decoder_input_ids"] = ids.flip(1)
    with torch.no_grad():
        ours, theirs = (model.eval()(**given).to_tuple()[0].float() for model in (builtin, original))
    error, largest = (ours - theirs).abs().max().item(), ours.abs().max().item()
    if not error <= _TOLERANCE * max(largest, 1.0):
        raise ModelError(
            f"{type(original).__name__} gives other outputs (off by {error:.3g} where the largest is {largest:.3g})"
        )
