"""A model with the head that a task needs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import transformers
from torch.nn import functional as F
from transformers.modeling_outputs import MultipleChoiceModelOutput

from workbench.errors import ConfigError, ModelError, WorkbenchError
from workbench.models import load_tokenizer
from workbench.models.configuration import TransformerConfig
from workbench.models.loading import locate
from workbench.models.pooled import PooledConfig, PooledForSequenceClassification
from workbench.models.problem import ProblemType
from workbench.pretrained import from_pretrained, reason
from workbench.training.finetuning.tasks import AnswerKind, FineTask

__all__ = ["Headed", "Pooling", "ask", "check_pools", "load_with_head"]

_AUTO = {
    AnswerKind.CLASS: "AutoModelForSequenceClassification",
    AnswerKind.NUMBER: "AutoModelForSequenceClassification",
    AnswerKind.TOKENS: "AutoModelForTokenClassification",
    AnswerKind.SPAN: "AutoModelForQuestionAnswering",
    AnswerKind.CHOICE: "AutoModelForMultipleChoice",
    AnswerKind.RESPONSE: "AutoModelForCausalLM",
}

_POOLED = (AnswerKind.CLASS, AnswerKind.NUMBER)  # what one vector of a text is enough for


@dataclass(frozen=True)
class Headed:
    """A model with its head and tokenizer; ``one_by_one``: it scores one choice at a time.

    ``fresh`` names the weights that the folder did not have, drawn at random: the head's, and often a pooler's.
    """

    model: Any
    tokenizer: Any
    one_by_one: bool = False
    fresh: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pooling:
    """What a classifier of texts reads; see :class:`~workbench.models.parts.HeadConfig`."""

    kind: str
    aspects: int | None = None


def check_pools(pooling: str | None, kind: AnswerKind) -> None:
    """Raise :class:`~workbench.errors.ConfigError` for pooling where no vector stands for a text."""
    if pooling is not None and kind not in _POOLED:
        raise ConfigError(f"pooling {pooling} does not go with --kind {kind}; allowed: class, number")


def load_with_head(
    name: str, task: FineTask, layers: int | None = None, pooling: Pooling | None = None
) -> Headed:
    """The model called ``name`` in float32, with a fresh head where the task needs one; its first ``layers`` only.

    With ``pooling`` built-in models get it in their configuration, others a head around them
    (:class:`~workbench.models.pooled.PooledForSequenceClassification`). An architecture without a multiple-choice head
    gets one output that scores each choice. Upper layers are left out before fine-tuning as in Sajjad et al. 2023, "On
    the effect of dropping layers of pre-trained transformer models".
    Raises :class:`~workbench.errors.ModelError` if the architecture has no such head.
    """
    location, tokenizer = locate(name), load_tokenizer(name)
    try:
        config = from_pretrained(transformers.AutoConfig, location)
        _keep_layers(config, layers)
        auto, one_by_one = _auto_class(config, task)
        if pooling is None or _takes_pooling(config, pooling):
            _describe(config, task)
            model, fresh = _opened(auto, location, config, may_replace=task.kind is not AnswerKind.RESPONSE)
        else:
            model, fresh = _around(location, config, task, pooling)
    except WorkbenchError:
        raise
    except Exception as error:  # a broken file can raise anything
        problem = reason(error)
        if "Unrecognized configuration class" in problem or "model identifier" in problem:
            problem = f"it has no head for {task.kind}; allowed: models of transformers' {_AUTO[task.kind]}"
            if task.kind in _POOLED:
                problem += ", or any encoder with --pooling mean or attention"
        raise ModelError(f"{name} cannot be fine-tuned on {task.name}: {problem}") from error
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    tokenizer.padding_side = "right"
    if model.config.pad_token_id is None:
        model.config.pad_token_id = tokenizer.pad_token_id
    return Headed(model, tokenizer, one_by_one, fresh)


def _opened(auto: Any, location: Any, config: Any, *, may_replace: bool) -> tuple[Any, tuple[str, ...]]:
    """The model, and names of the parameters that were not loaded: absent from the folder, or there in another shape.

    Another shape is an error unless it ``may_replace`` what is there.
    """
    model, loading = from_pretrained(
        auto,
        location,
        config=config,
        dtype="float32",
        use_safetensors=True,
        ignore_mismatched_sizes=may_replace,
        output_loading_info=True,
    )
    absent = {*loading["missing_keys"], *(key for key, *_ in loading["mismatched_keys"])}
    return model, tuple(name for name, _ in model.named_parameters() if name in absent)


def _takes_pooling(config: Any, pooling: Pooling) -> bool:
    """Whether a model has pooling in its own configuration; then it is set there."""
    if isinstance(config, TransformerConfig):
        config.head = replace(config.head, pooling=pooling.kind, aspects=pooling.aspects)
    elif isinstance(config, PooledConfig):
        config.pooling, config.aspects = pooling.kind, pooling.aspects
    return isinstance(config, TransformerConfig | PooledConfig)


def _around(location: Any, body: Any, task: FineTask, pooling: Pooling) -> tuple[Any, tuple[str, ...]]:
    """A head that pools the states of the model in ``location``, whose configuration is ``body``; what is fresh."""
    config = PooledConfig(text_config=body, pooling=pooling.kind, aspects=pooling.aspects)
    _describe(config, task)
    model = PooledForSequenceClassification(config)
    head = [name for name, _ in model.named_parameters() if not name.startswith("model.")]
    model.model, fresh = _opened(transformers.AutoModel, location, body, may_replace=False)
    return model, (*(f"model.{name}" for name in fresh), *head)


def _auto_class(config: Any, task: FineTask) -> tuple[Any, bool]:
    """The Auto class, and whether it stands in for a multiple-choice head."""
    if task.kind is AnswerKind.RESPONSE and config.is_encoder_decoder:
        return transformers.AutoModelForSeq2SeqLM, False
    auto = getattr(transformers, _AUTO[task.kind])
    if task.kind is AnswerKind.CHOICE and type(config) not in auto._model_mapping:
        return transformers.AutoModelForSequenceClassification, True
    return auto, False


def _describe(config: Any, task: FineTask) -> None:
    """Tell the configuration what the head gives."""
    if task.kind in (AnswerKind.CLASS, AnswerKind.TOKENS):
        config.id2label = dict(enumerate(task.labels))
        config.label2id = {label: i for i, label in enumerate(task.labels)}
    if task.kind in (AnswerKind.NUMBER, AnswerKind.CHOICE):
        config.num_labels = 1
    if task.kind is AnswerKind.NUMBER:
        config.problem_type = ProblemType.NUMBER.value
    if task.kind is AnswerKind.CLASS:  # a base that gives several labels at once would go on doing so
        config.problem_type = ProblemType.ONE_LABEL.value


def _keep_layers(config: Any, layers: int | None) -> None:
    """Tell the configuration how many layers are kept."""
    if isinstance(config, PooledConfig):
        config = config.text_config
    if layers is None:
        return
    if not 1 <= layers <= config.num_hidden_layers or config.is_encoder_decoder:
        allowed = (
            f"1 to {config.num_hidden_layers}" if not config.is_encoder_decoder else "encoders, decoders"
        )
        raise ConfigError(f"layers is {layers}; allowed: {allowed}")
    if isinstance(config, TransformerConfig):
        config.depth = replace(config.depth, layers=layers)
    else:
        config.num_hidden_layers = layers


def ask(model: Any, batch: dict[str, Any], *, one_by_one: bool = False) -> Any:
    """The model's output; ``one_by_one`` scores choices (B, C, T) as B·C texts of one number each."""
    if not one_by_one:
        return model(**batch)
    labels = batch.get("labels")
    choices = batch["input_ids"].shape[:2]  # (B, C)
    flat = {name: value.flatten(0, 1) for name, value in batch.items() if name != "labels"}
    logits = model(**flat).logits.view(choices)
    loss = None if labels is None else F.cross_entropy(logits.float(), labels)
    return MultipleChoiceModelOutput(loss=loss, logits=logits)
