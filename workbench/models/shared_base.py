"""Several adapters on one base: a model for each, which share the weights that their adapters leave alone."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from threading import RLock
from typing import Any

from torch import nn

from workbench.errors import ModelError, WorkbenchError
from workbench.models._adapters import Adapter, has_adapter, read_adapter, with_adapter
from workbench.models._loaded import LoadedModel
from workbench.models.dispatched import in_memory
from workbench.models.weights import content_hash, remember_files
from workbench.models.wrapping import as_model
from workbench.paths import user_path
from workbench.pretrained import quiet, reason
from workbench.text import PromptFormat
from workbench.text.load import holds_tokenizer, open_tokenizer

__all__ = ["load_adapters"]


def load_adapters(
    base: LoadedModel | str, adapters: Mapping[str, str | Path], **prompt: Any
) -> dict[str, LoadedModel]:
    """A model for each PEFT adapter of ``base``, by the names given; the base itself stays as it is.

    The base's weights are in memory once: a model has weights of its own only where its adapter changes them (LoRA and
    its like are merged there, prompt and prefix tuning stay around the model). Nothing is switched on or off: all of
    them can be scored, traced and compared in turn. What changes a shared weight in place changes it for all. Each has
    the identity (content hash) of its adapter's folder loaded by itself.

    Args:
        base: the model that all adapters were trained on, or its name.
        adapters: the folder that PEFT saved, for each name; models are called ``BASE+NAME``.
        **prompt: how the models read texts: fields of :class:`~workbench.text.PromptFormat`.

    Raises:
        ModelError: no adapter in a folder, one of another base or for a task that the base has no head for, or no peft.

    Example:
        ```python
        import peft
        import workbench
        from workbench.models import load_adapters

        for name in ("a", "b"):  # stand for adapters that were trained
            lora = peft.LoraConfig(target_modules="all-linear", init_lora_weights=False)
            peft.get_peft_model(workbench.load("novels-decoder").model, lora).save_pretrained(name)
        for name, model in load_adapters("novels-decoder", {"a": "a", "b": "b"}).items():
            print(name, workbench.score(model, "The boys at home", " were").log_probability)
        ```
    """
    model = as_model(base, **prompt)
    return {name: _adapted(model, name, user_path(folder)) for name, folder in adapters.items()}


def _adapted(base: LoadedModel, name: str, folder: Path) -> LoadedModel:
    if not has_adapter(folder):
        raise ModelError(f"{folder} holds no adapter: there is no adapter_config.json, which PEFT writes")
    try:
        adapter = read_adapter(folder)
        if adapter.task is not None and adapter.task[0] is not base.kind:
            raise ModelError(
                f"the adapter in {folder} makes a {adapter.task[0]} model, and {base.name} is loaded as {base.kind}; "
                "load the folder by itself"
            )
        tokenizer = (
            open_tokenizer(folder, local_files_only=True) if holds_tokenizer(folder) else base.tokenizer
        )
        with quiet():
            model = with_adapter(_sharing(base.model, adapter), adapter, len(tokenizer)).eval()
    except WorkbenchError:
        raise
    except Exception as error:  # peft and safetensors raise many kinds for files that do not fit
        raise ModelError(f"{name}: cannot load from {folder}: {reason(error)}") from error
    own = content_hash(folder.glob("*.safetensors"))
    remember_files(model, hashlib.sha256(f"{own} on {base.content_hash}".encode()).hexdigest())
    plain = replace(
        base,
        model=model,
        tokenizer=tokenizer,
        name=f"{base.name}+{name}",
        path=folder,
        lock=RLock(),
        prompt=PromptFormat(),
    )
    return plain.reads(**asdict(base.prompt))


def _sharing(model: Any, adapter: Adapter) -> Any:
    """A copy of the modules of ``model`` on the same weights, but for those that the adapter's file replaces."""
    in_memory(model, "sharing weights between adapters")
    shared: dict[int, Any] = {id(tensor): tensor for tensor in model.buffers()}
    for name, weight in model.named_parameters():
        values = weight.data if adapter.shape_of(name) is None else weight.data.clone()
        shared[id(weight)] = nn.Parameter(values, requires_grad=weight.requires_grad)
    return copy.deepcopy(model, shared)
