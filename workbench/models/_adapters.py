"""Folders that PEFT writes: an adapter, and the name of the base model that it belongs to.

An adapter that can be merged becomes part of the base's weights, so that every analysis sees a plain model;
prompt and prefix tuning cannot, and stay around it.
"""

from __future__ import annotations

import copy
import json
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from workbench.errors import ModelError, needs_extra
from workbench.models._loaded import Kind
from workbench.pretrained import from_pretrained

__all__ = ["ADAPTER_WEIGHTS", "Adapter", "has_adapter", "load_base", "read_adapter", "with_adapter"]

ADAPTER_WEIGHTS = "adapter_model.safetensors"
_SETTINGS = "adapter_config.json"

# Modules that PEFT puts around one of the base model, in the names of the weights that it saves.
_WRAPPERS = re.compile(r"\.(token_adapter|base_layer|modules_to_save|original_module)(?=\.)")
# A task that PEFT names -> what the base model is opened as; without a task it is opened as what it is.
_TASKS = {
    "SEQ_CLS": (Kind.CLASSIFIER, "AutoModelForSequenceClassification"),
    "TOKEN_CLS": (Kind.CLASSIFIER, "AutoModelForTokenClassification"),
    "QUESTION_ANS": (Kind.CLASSIFIER, "AutoModelForQuestionAnswering"),
    "CAUSAL_LM": (Kind.CAUSAL, "AutoModelForCausalLM"),
    "SEQ_2_SEQ_LM": (Kind.SEQ2SEQ, "AutoModelForSeq2SeqLM"),
    "FEATURE_EXTRACTION": (Kind.ENCODER, "AutoModel"),
}


@dataclass(frozen=True)
class Adapter:
    """What a folder states about its adapter: base model, task, and the shapes of the weights by their names."""

    folder: Path
    base: str
    task: tuple[Kind, str] | None
    shapes: dict[str, tuple[int, ...]]

    def shape_of(self, name: str) -> tuple[int, ...] | None:
        """Shape of the base model's parameter ``name`` in the adapter; ``None`` if the adapter leaves it alone."""
        return next((shape for key, shape in self.shapes.items() if f".{key}".endswith(f".{name}")), None)


def has_adapter(folder: Path) -> bool:
    """Whether the folder holds an adapter."""
    return (folder / _SETTINGS).is_file()


def read_adapter(folder: Path) -> Adapter:
    """The adapter in ``folder``; raises :class:`~workbench.errors.ModelError` for files that PEFT did not write."""
    path = folder / _SETTINGS
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(settings, dict):
        raise ModelError(f"{path} must hold a JSON object, holds a {type(settings).__name__}")
    task = settings.get("task_type")
    if task is not None and (not isinstance(task, str) or task not in _TASKS):
        raise ModelError(f"{path}: adapter for task {task!r:.80}; allowed: {', '.join(_TASKS)}, or none")
    return Adapter(folder, _base(folder, settings), _TASKS.get(task) if task else None, _shapes(folder))


def _base(folder: Path, settings: dict[str, Any]) -> str:
    """The base model's name, or its folder: inside the adapter's, or beside it as a relative path says."""
    if (folder / "base").is_dir():
        return str(folder / "base")
    name = settings.get("base_model_name_or_path")
    if not isinstance(name, str) or not name.strip():
        raise ModelError(
            f"{folder / _SETTINGS} names no base model: base_model_name_or_path is {name!r:.80}; "
            "write there the folder or the name of the model that the adapter was trained on"
        )
    beside = folder / name
    return str(beside) if not Path(name).expanduser().exists() and beside.is_dir() else name


def _shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    with safe_open(folder / ADAPTER_WEIGHTS, "pt") as file:
        return {_WRAPPERS.sub("", k): tuple(file.get_slice(k).get_shape()) for k in file.keys()}  # noqa: SIM118


def load_base(adapter: Adapter, location: str, dtype: torch.dtype, **options: Any) -> tuple[Kind, Any]:
    """The base model as the adapter's task needs it, with as many labels as the adapter's head has.

    Raises :class:`~workbench.errors.ModelError` where neither base nor adapter holds the weights of the head.
    """
    import transformers

    assert adapter.task is not None
    kind, auto = adapter.task[0], getattr(transformers, adapter.task[1])
    config = from_pretrained(transformers.AutoConfig, location, **options)
    labels = _label_count(config, auto, adapter)
    if labels is not None and labels != config.num_labels:
        config.num_labels = labels
    model, report = from_pretrained(
        auto,
        location,
        config=config,
        dtype=dtype,
        use_safetensors=True,
        output_loading_info=True,
        ignore_mismatched_sizes=labels is not None,  # a head of the base for other labels
        **options,
    )
    fresh = [*report["missing_keys"], *(entry[0] for entry in report["mismatched_keys"])]
    unused = "pooler" if kind is Kind.ENCODER else "\0"
    lacking = [name for name in sorted(fresh) if adapter.shape_of(name) is None and unused not in name]
    if lacking:
        raise ModelError(
            f"neither {location} nor the adapter in {adapter.folder} holds {', '.join(lacking[:3])}, which "
            f"{type(model).__name__} needs; name the base model that the adapter was trained on"
        )
    return kind, model


def _label_count(config: Any, auto: Any, adapter: Adapter) -> int | None:
    """How many labels the head in the adapter has: read where a model of 2 labels differs from one of 3."""
    few, more = (_parameter_shapes(config, auto, labels) for labels in (2, 3))
    for name, shape in few.items():
        stored = adapter.shape_of(name)
        axes = [axis for axis, size in enumerate(shape) if more[name][axis] != size]
        if stored is not None and axes and len(stored) == len(shape):
            return stored[axes[0]]
    return None


def _parameter_shapes(config: Any, auto: Any, labels: int) -> dict[str, tuple[int, ...]]:
    config = copy.deepcopy(config)
    config.num_labels = labels
    with torch.device("meta"):
        model = auto.from_config(config, trust_remote_code=False)
    return {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}


def with_adapter(model: Any, adapter: Adapter, tokens: int) -> Any:
    """``model`` with the adapter merged into it, or around it where it cannot be merged.

    ``tokens`` is the size of the tokenizer's vocabulary. Raises :class:`~workbench.errors.ModelError` without
    peft, and where the adapter lacks weights or the vocabulary does not fit.
    """
    try:
        from peft import PeftModel
    except ImportError:
        raise ModelError(needs_extra(f"the adapter in {adapter.folder}", "peft", "train")) from None
    _fit_vocabulary(model, adapter, tokens)
    with warnings.catch_warnings():
        # peft asks transformers by a name that is on its way out
        warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
        warnings.filterwarnings("error", message="Found missing adapter keys")
        adapted = PeftModel.from_pretrained(model, adapter.folder)
        if adapted.active_peft_config.is_prompt_learning or not hasattr(adapted, "merge_and_unload"):
            return adapted
        return adapted.merge_and_unload(safe_merge=True)  # into new weights: the base's may be shared


def _fit_vocabulary(model: Any, adapter: Adapter, tokens: int) -> None:
    """Give the base the rows of tokens that were added in training, if the adapter holds their vectors."""
    embeddings = model.get_input_embeddings()
    name = next(f"{name}.weight" for name, module in model.named_modules() if module is embeddings)
    stored, rows = adapter.shape_of(name), len(embeddings.weight)
    if stored is not None and stored[0] != rows:
        model.resize_token_embeddings(stored[0], mean_resizing=False)
        rows = stored[0]
    if tokens > rows:
        raise ModelError(
            f"{adapter.folder}: its tokenizer has {tokens} tokens, the base model vectors for {rows}, and the "
            "adapter holds none for the others; save it again with save_embedding_layers=True"
        )
