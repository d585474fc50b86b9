"""Which weights are trained: all, the head, or a few beside them; and how the result becomes a plain model again."""

from __future__ import annotations

import warnings
from enum import StrEnum
from typing import Any

from torch import nn
from transformers.pytorch_utils import Conv1D

from workbench.errors import ConfigError, needs_extra
from workbench.training.finetuning.adapters import add_adapters, merge_adapters
from workbench.training.finetuning.tasks import AnswerKind

__all__ = ["LEARNING_RATES", "Method", "apply_method", "merged"]


class Method(StrEnum):
    """Ways to fine-tune."""

    FULL = "full"
    HEAD = "head"  # only what the pre-trained model lacks
    LORA = "lora"  # Hu et al. 2022: low-rank updates of every linear layer
    ADAPTER = "adapter"  # He et al. 2022: parallel bottlenecks
    PREFIX = "prefix"  # Li & Liang 2021: learned keys and values in front of every layer's
    PROMPT = "prompt"  # Lester et al. 2021: learned vectors in front of the text


LEARNING_RATES = {
    Method.FULL: 5e-5,
    Method.HEAD: 1e-3,
    Method.LORA: 5e-4,
    Method.ADAPTER: 5e-4,
    Method.PREFIX: 1e-2,
    Method.PROMPT: 1e-2,
}

_TASK_TYPES = {
    AnswerKind.CLASS: "SEQ_CLS",
    AnswerKind.NUMBER: "SEQ_CLS",
    AnswerKind.TOKENS: "TOKEN_CLS",
    AnswerKind.SPAN: "QUESTION_ANS",
    AnswerKind.RESPONSE: "CAUSAL_LM",
}


def apply_method(
    model: Any, method: Method, kind: AnswerKind, *, rank: int = 8, virtual_tokens: int = 20
) -> Any:
    """The model with the right weights trainable. ``rank`` is LoRA's, and eight times it the adapters' width.

    Raises :class:`~workbench.errors.ConfigError` if method, task and architecture do not go together.
    """
    if method is Method.FULL:
        return model
    if method is Method.HEAD:
        if not _heads(model):
            raise ConfigError("this task adds no head to the model; use --method full or lora")
        for parameter in model.base_model.parameters():
            parameter.requires_grad_(False)
        return model
    if method is Method.ADAPTER:
        add_adapters(model, 8 * rank)
        return model
    return _with_peft(model, method, kind, rank, virtual_tokens)


def _with_peft(model: Any, method: Method, kind: AnswerKind, rank: int, virtual_tokens: int) -> Any:
    try:
        import peft
    except ImportError:
        raise ConfigError(needs_extra(f"method {method}", "peft", "train")) from None
    if kind is AnswerKind.CHOICE and method is not Method.LORA:
        raise ConfigError(
            f"method {method} does not go with multiple choice; allowed: full, head, lora, adapter"
        )
    task_type = _TASK_TYPES.get(kind)
    if kind is AnswerKind.RESPONSE and model.config.is_encoder_decoder:
        task_type = "SEQ_2_SEQ_LM"
    config: Any
    if method is Method.LORA:
        config = peft.LoraConfig(
            task_type=task_type,
            r=rank,
            lora_alpha=2 * rank,
            lora_dropout=0.05,
            target_modules=_linear_names(model),
            modules_to_save=_heads(model) or None,
        )
    else:
        kinds = {Method.PREFIX: peft.PrefixTuningConfig, Method.PROMPT: peft.PromptTuningConfig}
        shape = model.config.get_text_config()
        heads, width = int(shape.num_attention_heads), int(shape.hidden_size)
        shared = int(getattr(shape, "num_key_value_heads", None) or heads)
        if method is Method.PREFIX:  # one vector for each key/value head
            heads, width = shared, width // heads * shared
        config = kinds[method](
            task_type=task_type,
            num_virtual_tokens=virtual_tokens,
            num_layers=int(shape.num_hidden_layers),
            num_attention_heads=heads,
            token_dim=width,
        )
    try:
        with warnings.catch_warnings():  # peft asks transformers by a name that is on its way out
            warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
            return peft.get_peft_model(model, config)
    except (ValueError, AttributeError, TypeError, KeyError) as error:
        reason = " ".join(str(error).split())[:160]
        raise ConfigError(f"method {method} does not go with {type(model).__name__}: {reason}") from error


def _heads(model: Any) -> list[str]:
    """Names of the parts beside the body that have weights of their own."""
    body = model.base_model_prefix
    shared = {id(p) for p in getattr(model, body, model).parameters()}
    return [
        name
        for name, child in model.named_children()
        if name != body and any(id(p) not in shared for p in child.parameters())
    ]


def _linear_names(model: Any) -> list[str]:
    """Full names of the body's linear layers, but for a pooler, which is trained as it is where it is new."""
    body = model.base_model_prefix
    return [
        f"{body}.{name}"
        for name, module in getattr(model, body).named_modules()
        if isinstance(module, nn.Linear | Conv1D) and "pooler" not in name
    ]


def merged(model: Any, method: Method) -> Any:
    """The trained model as one of its own architecture; prefix and prompt tuning stay as they are.

    LoRA's updates are added to the weights they update, adapters become inner units.
    """
    if method is Method.LORA:
        return model.merge_and_unload()
    if method is Method.ADAPTER:
        merge_adapters(model)
    return model
