"""What verbs are given becomes a model: a name, a model in memory, or a function of your own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

from workbench.choices import member
from workbench.errors import ConfigError, ModelError
from workbench.models._kind import kind_of
from workbench.models._loaded import Kind, LoadedModel
from workbench.models.dispatched import input_device
from workbench.models.functions import (
    FUNCTIONS_GO_WITH,
    NoInternals,
    TextFunction,
    is_function,
    wrap_function,
)
from workbench.models.loading import load
from workbench.text import PromptFormat

__all__ = ["as_model", "as_subject", "prompted", "wrap"]


def as_model(model: LoadedModel | TextFunction | str, **prompt: Any) -> LoadedModel:
    """``model`` itself, or what :func:`load` gives for its name; ``prompt`` is how it :meth:`~LoadedModel.reads`.

    Raises :class:`~workbench.errors.ModelError` for a function, which has no internals, and for a transformers model
    that is not wrapped.
    """
    if isinstance(model, LoadedModel):
        return model.reads(**prompt)
    if isinstance(model, TextFunction) or is_function(model):
        raise NoInternals(
            f"this needs a model's internals; {getattr(model, 'name', model)!s:.60} is a function: {FUNCTIONS_GO_WITH}"
        )
    if hasattr(model, "get_input_embeddings"):
        raise ModelError(
            f"{type(model).__name__} is a model without its tokenizer; give both: workbench.wrap(model, tokenizer)"
        )
    return load(model).reads(**prompt) if isinstance(model, str) else model


def as_subject(model: Any, **prompt: Any) -> LoadedModel | TextFunction:
    """``model`` as :func:`as_model` gives it, or a function as :func:`wrap` does: where only answers are needed.

    Raises :class:`~workbench.errors.ModelError` for a function with a ``prompt``, which is of models.
    """
    if isinstance(model, LoadedModel) or not is_function(model):
        return as_model(model, **prompt)
    if prompt:
        raise ModelError(f"{', '.join(prompt)}: of a model; a function gets its texts as they are")
    return wrap_function(model)


def prompted(model: Any, settings: PromptFormat) -> Any:
    """The model or function, reading texts as ``settings`` say, which the run's recipe holds.

    Raises :class:`~workbench.errors.ConfigError` for a model that was made to read otherwise.
    """
    subject = as_subject(model, **settings.prompt)
    if isinstance(subject, LoadedModel) and not settings.prompt and subject.prompt != PromptFormat():
        raise ConfigError(
            f"{subject.name} was made to read as {subject.prompt}; say so in the options, which the run stores: "
            "chat, system, special_tokens"
        )
    return subject


@overload
def wrap(model: Any, tokenizer: Any, *, name: str = "", kind: Kind | str | None = None) -> LoadedModel:
    """A transformers model with its tokenizer."""


@overload
def wrap(model: Any, *, name: str = "", labels: Sequence[Any] | None = None) -> TextFunction:
    """A function with its labels."""


def wrap(
    model: Any,
    tokenizer: Any = None,
    *,
    name: str = "",
    kind: Kind | str | None = None,
    labels: Sequence[Any] | None = None,
) -> LoadedModel | TextFunction:
    """A transformers model that is in memory already, as :func:`load` would return it; or a function of your own.

    A model needs its ``tokenizer`` and is put into ``eval()``. ``kind`` is found from its class; name it where the
    class name does not say it. Weights may be offloaded by accelerate (``device_map``, ``disk_offload``): they are read
    when their modules run. A function takes a list of texts and returns the probability of each of its
    ``labels``, one row a text; anything with ``predict_proba`` will do, such as a scikit-learn pipeline, whose
    ``classes_`` are its labels. Raises :class:`~workbench.errors.ModelError` for a tokenizer of more tokens than the
    model has embeddings, and for a function without labels.

    Example:
        ```python
        import transformers
        import workbench

        mine = workbench.load("novels-decoder").path
        model = transformers.AutoModelForCausalLM.from_pretrained(mine)
        tokenizer = transformers.AutoTokenizer.from_pretrained(mine)
        wrapped = workbench.wrap(model, tokenizer, name="mine")
        print(wrapped.kind, wrapped.num_parameters)
        ```
    """
    if tokenizer is None and is_function(model):
        return wrap_function(model, labels, name)
    if tokenizer is None or labels is not None or kind == Kind.FUNCTION:
        raise ModelError(
            f"{type(model).__name__} is a model, which needs its tokenizer and takes no labels: "
            "workbench.wrap(model, tokenizer); a function takes labels and no tokenizer"
        )
    return _wrapped(model, tokenizer, name, kind)


def _wrapped(model: Any, tokenizer: Any, name: str, kind: Kind | str | None) -> LoadedModel:
    rows = model.get_input_embeddings().weight.shape[0]
    if len(tokenizer) > rows:
        raise ModelError(
            f"the tokenizer has {len(tokenizer):,} tokens, the model embeddings of {rows:,}; give the model's own"
        )
    return LoadedModel(
        model=model.eval(),
        tokenizer=tokenizer,
        kind=member(Kind, kind, "kind", ModelError) if kind is not None else kind_of(type(model).__name__),
        name=name or type(model).__name__,
        revision=None,
        dtype=next(model.parameters()).dtype,
        device=input_device(model),
        implementation="builtin" if type(model).__module__.startswith("workbench.") else "hf",
    )
