"""Prompts in the chat format of the model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from workbench.errors import TaskError
from workbench.evaluate._requests import Ask, GenerationRequest, Request
from workbench.models import LoadedModel

__all__ = ["in_chat"]


def in_chat(model: LoadedModel, asks: tuple[Ask, ...]) -> tuple[Ask, ...]:
    """Each context as one user message; the continuation starts the reply, without the blank before it.

    Raises :class:`~workbench.errors.TaskError` if the model has no chat template.
    """
    if not getattr(model.tokenizer, "chat_template", None):
        raise TaskError(f"{model.name} has no chat template; leave out --chat")
    return tuple(_in_chat(model.tokenizer, ask) for ask in asks)


def _in_chat(tokenizer: Any, ask: Ask) -> Ask:
    if isinstance(ask, Request):
        return Request(_message(tokenizer, ask.context), ask.continuation.removeprefix(" "))
    if isinstance(ask, GenerationRequest):
        return replace(ask, text=_message(tokenizer, ask.text))
    return ask


def _message(tokenizer: Any, text: str) -> str:
    messages = [{"role": "user", "content": text}]
    rendered: str = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    return rendered
