"""Which weights are trained: all, the head, or a few beside them; and how the result becomes a plain model again."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from workbench.errors import ConfigError, needs_extra
from workbench.training.finetuning.adapters import add_adapters, merge_adapters
from workbench.training.finetuning.tasks import AnswerKind
from workbench.training.libraries import should_reduce_batch_size

__all__ = [
    "LEARNING_RATES",
    "PROMPTED",
    "Method",
    "apply_method",
    "check_goes_together",
    "lora_config",
    "merged",
    "try_one_step",
]


class Method(StrEnum):
    """Ways to fine-tune."""

    FULL = "full"
    HEAD = "head"  # only the head, and other weights that the model's folder lacks
    LORA = "lora"  # Hu et al. 2022: low-rank updates, of every linear layer (theirs: of queries and values)
    ADAPTER = "adapter"  # He et al. 2022: parallel bottlenecks
    PREFIX = "prefix"  # Li & Liang 2021: learned keys and values in front of every layer's, without their MLP
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


PROMPTED = (Method.PREFIX, Method.PROMPT)  # learned vectors beside a base that stays as it is

# kinds of task that a method cannot serve, whatever the model, and why
_IMPOSSIBLE = {
    (Method.HEAD, AnswerKind.RESPONSE): "this kind adds no head to the model",
    **{
        (method, AnswerKind.CHOICE): "peft has no model for multiple choice with vectors of their own"
        for method in PROMPTED
    },
    **{
        (
            Method.PROMPT,
            kind,
        ): "the vectors before a text shift its tokens, and peft leaves their labels behind"
        for kind in (AnswerKind.TOKENS, AnswerKind.SPAN)
    },
}


def check_goes_together(method: Method, kind: AnswerKind) -> None:
    """Raise :class:`~workbench.errors.ConfigError` for a method that cannot train any model to a kind of task."""
    reason = _IMPOSSIBLE.get((method, kind))
    if reason is not None:
        allowed = [other for other in Method if (other, kind) not in _IMPOSSIBLE]
        raise ConfigError(
            f"method {method} does not go with --kind {kind}: {reason}; allowed: {', '.join(allowed)}"
        )


def apply_method(
    model: Any,
    method: Method,
    kind: AnswerKind,
    *,
    fresh: Sequence[str] = (),
    rank: int = 8,
    virtual_tokens: int = 20,
) -> Any:
    """The model with the right weights trainable. ``rank`` is LoRA's, and eight times it the adapters' width.

    Every method trains a task's head and the ``fresh`` parameters: nothing of the model can have learned to use weights
    that were just drawn. Raises :class:`~workbench.errors.ConfigError` if method, task and architecture do not go
    together.
    """
    check_goes_together(method, kind)
    if method is Method.FULL:
        return model
    if method is Method.HEAD:
        for parameter in model.base_model.parameters():
            parameter.requires_grad_(False)
    elif method is Method.ADAPTER:
        add_adapters(model, 8 * rank)
        if kind is AnswerKind.RESPONSE:
            for name in _heads(model):
                model.get_submodule(name).requires_grad_(False)
    else:
        return _with_peft(model, method, kind, fresh, rank, virtual_tokens)
    for name, parameter in model.named_parameters():
        if name in fresh:
            parameter.requires_grad_(True)
    return model


def _with_peft(
    model: Any, method: Method, kind: AnswerKind, fresh: Sequence[str], rank: int, virtual_tokens: int
) -> Any:
    try:
        import peft
    except ImportError:
        raise ConfigError(needs_extra(f"method {method}", "peft", "train")) from None
    config: Any
    if method is Method.LORA:
        config = lora_config(model, kind, fresh, rank)
    else:
        kinds = {Method.PREFIX: peft.PrefixTuningConfig, Method.PROMPT: peft.PromptTuningConfig}
        shape = model.config.get_text_config()
        heads, width = int(shape.num_attention_heads), int(shape.hidden_size)
        shared = int(getattr(shape, "num_key_value_heads", None) or heads)
        if method is Method.PREFIX:  # one vector for each key/value head
            heads, width = shared, width // heads * shared
        config = kinds[method](
            task_type=_task_type(model, kind),
            num_virtual_tokens=virtual_tokens,
            num_layers=int(shape.num_hidden_layers),
            num_attention_heads=heads,
            token_dim=width,
            modules_to_save=_trained_whole(model, kind, fresh) or None,
        )
    try:
        with warnings.catch_warnings():  # peft asks transformers by a name that is on its way out
            warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
            return peft.get_peft_model(model, config)
    except (ValueError, AttributeError, TypeError, KeyError) as error:
        reason = " ".join(str(error).split())[:160]
        raise ConfigError(f"method {method} does not go with {type(model).__name__}: {reason}") from error


def lora_config(model: Any, kind: AnswerKind, fresh: Sequence[str], rank: int) -> Any:
    """LoRA of every linear layer of the body, as peft takes it; heads and ``fresh`` weights are trained whole."""
    import peft

    whole = _trained_whole(model, kind, fresh)
    return peft.LoraConfig(
        task_type=_task_type(model, kind),
        r=rank,
        lora_alpha=2 * rank,
        lora_dropout=0.05,
        target_modules=_linear_names(model, whole),
        modules_to_save=whole or None,
    )


def _task_type(model: Any, kind: AnswerKind) -> str | None:
    """The kind of task, as peft names it."""
    if kind is AnswerKind.RESPONSE and model.config.is_encoder_decoder:
        return "SEQ_2_SEQ_LM"
    return _TASK_TYPES.get(kind)


def try_one_step(model: Any, method: Method, kind: AnswerKind, loss: Callable[[], Tensor]) -> None:
    """One pass forward and back, before anything is trained or stored; it leaves no gradient and no random number.

    Whether peft can put a prefix into a model, or a head comes after it, shows here. Raises
    :class:`~workbench.errors.ConfigError`.
    """
    try:
        with torch.random.fork_rng():
            loss().backward()
    except (ValueError, TypeError, AttributeError, KeyError, IndexError, RuntimeError) as error:
        if should_reduce_batch_size(error):
            raise
        others = [m for m in Method if m not in PROMPTED and (m, kind) not in _IMPOSSIBLE]
        reason = " ".join(str(error).split())[:120]
        raise ConfigError(
            f"method {method} cannot train this {type(_plain(model)).__name__} to --kind {kind}: {reason}; "
            f"use --method {', '.join(others)}"
        ) from error
    finally:
        model.zero_grad(set_to_none=True)


def _plain(model: Any) -> Any:
    """The model that peft's stands around."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def _trained_whole(model: Any, kind: AnswerKind, fresh: Sequence[str]) -> list[str]:
    """The modules that are trained as they are: a task's head, and those in the body with ``fresh`` parameters.

    The output layer of a language model is no head of a task, and stays as it is.
    """
    heads = [] if kind is AnswerKind.RESPONSE else _heads(model)
    inside = {name.rpartition(".")[0] for name in fresh if name.partition(".")[0] not in heads}
    return [*heads, *sorted(inside)]


def _heads(model: Any) -> list[str]:
    """Names of the parts beside the body that have weights of their own."""
    body = model.base_model_prefix
    shared = {id(p) for p in getattr(model, body, model).parameters()}
    return [
        name
        for name, child in model.named_children()
        if name != body and any(id(p) not in shared for p in child.parameters())
    ]


def _linear_names(model: Any, whole: Sequence[str]) -> list[str]:
    """Full names of the body's linear layers, but for those that are trained whole."""
    body = model.base_model_prefix
    names = (
        f"{body}.{name}"
        for name, module in getattr(model, body).named_modules()
        if isinstance(module, nn.Linear | Conv1D)
    )
    return [name for name in names if name not in whole]


def merged(model: Any, method: Method) -> Any:
    """The trained model as one of its own architecture; prefix and prompt tuning stay as they are.

    LoRA's updates are added to the weights they update, adapters become inner units.
    """
    if method is Method.LORA:
        return model.merge_and_unload()
    if method is Method.ADAPTER:
        merge_adapters(model)
    return model
