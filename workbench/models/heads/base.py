"""What heads share: scores over the vocabulary, the classifiers' linear layer, and their losses."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F
from transformers.utils.generic import ModelOutput

from workbench.models.assembly import make_norm
from workbench.models.base import TransformerPreTrainedModel, relabel, tuple_on_request
from workbench.models.configuration import TransformerConfig
from workbench.models.heads.pooling import pooled_classifier
from workbench.nn import ACTIVATIONS

__all__ = [
    "ClassifierModel",
    "HeadModel",
    "LabelModel",
    "OutputLayer",
    "SpanModel",
    "VocabularyHead",
    "VocabularyModel",
    "keep_positions",
    "step_share",
    "token_loss",
]

IGNORED_LABEL = -100


class VocabularyHead(nn.Module):
    """States (B, T, D) to logits (B, T, V), through a dense layer and a norm where BERT has them.

    Devlin et al. 2019, "BERT", section 3.1. ``scaled`` undoes, for a tied table, the size of its vectors (T5).
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        size = config.embeddings.size or config.hidden_size
        self.transform: nn.Module = nn.Identity()
        if config.head.transform is not None:
            self.transform = _Transform(config, size)
        self.output = nn.Linear(size, config.vocab_size, bias=config.head.bias)
        self.scale = config.hidden_size**-0.5 if config.head.scaled else 1.0

    def forward(self, hidden: Tensor) -> Tensor:
        """Logits of each position."""
        hidden = self.transform(hidden)
        return self.output(hidden if self.scale == 1.0 else hidden * self.scale)


class _Transform(nn.Module):
    def __init__(self, config: TransformerConfig, size: int) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, size)
        self.activation = ACTIVATIONS[config.head.transform or "linear"]
        self.norm = make_norm(config, width=size)

    def forward(self, hidden: Tensor) -> Tensor:
        """(B, T, D) to (B, T, E)."""
        return self.norm(self.activation(self.dense(hidden)))


def keep_positions(hidden: Tensor, logits_to_keep: int | Tensor) -> Tensor:
    """The last n positions of (B, T, D), those of an index tensor, or all for 0."""
    if isinstance(logits_to_keep, int):
        return hidden[:, -logits_to_keep:] if logits_to_keep else hidden
    return hidden[:, logits_to_keep]


def token_loss(logits: Tensor, labels: Tensor, num_items_in_batch: Tensor | int | None = None) -> Tensor:
    """Cross-entropy in nats per label of logits (…, V), labels (…); -100 marks positions without one.

    The mean over labels, or their sum over ``num_items_in_batch`` when gradients accumulate over batches.
    """
    reduction = "mean" if num_items_in_batch is None else "sum"
    loss = F.cross_entropy(
        logits.float().flatten(0, -2), labels.flatten(), ignore_index=IGNORED_LABEL, reduction=reduction
    )
    return loss if num_items_in_batch is None else loss / num_items_in_batch


def step_share(labels: Tensor, num_items_in_batch: Tensor | int | None) -> Tensor | float:
    """The share of a batch's ``labels`` in those of all batches that a step accumulates; 1 if there is one."""
    return 1.0 if num_items_in_batch is None else (labels != IGNORED_LABEL).sum() / num_items_in_batch


class OutputLayer:
    """``head.output`` as the layer that transformers resizes and ties; for models with a ``head``."""

    head: Any

    def get_output_embeddings(self) -> nn.Module:
        """The output layer."""
        output: nn.Module = self.head.output
        return output

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        """Replace the output layer."""
        self.head.output = new_embeddings


class VocabularyModel(OutputLayer, TransformerPreTrainedModel):
    """A language model: ``model`` is the body, ``head`` scores the vocabulary."""

    head: VocabularyHead


class HeadModel(TransformerPreTrainedModel):
    """A body, ``model``, and a head that scores its states; a head says how in :meth:`scores` and :meth:`loss`."""

    output_class: type[ModelOutput]

    def scores(self, output: Any, mask: Tensor | None) -> Tensor:
        """Logits of the body's ``output``; ``mask`` (B, T) is nonzero at tokens."""
        raise NotImplementedError

    def loss(self, logits: Tensor, labels: Tensor, mask: Tensor | None) -> Tensor:
        """Cross-entropy in nats per label; -100 marks positions without one."""
        return token_loss(logits, labels)

    def with_scores(self, output: Any, mask: Tensor | None, labels: Tensor | None) -> ModelOutput:
        """Logits, and the loss if there are ``labels``, with the body's states and attentions."""
        logits = self.scores(output, mask)
        loss = None if labels is None else self.loss(logits, labels, mask)
        return relabel(output, self.output_class, loss=loss, logits=logits)

    def token_mask(self, input_ids: Tensor | None, attention_mask: Tensor | None) -> Tensor | None:
        """Which positions (B, T) are tokens, as far as it is known."""
        return attention_mask


class LabelModel(HeadModel):
    """A head over an encoder or a decoder that is trained on ``labels``."""

    @tuple_on_request
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
    ) -> ModelOutput:
        """Ids (B, T), or vectors (B, T, D), to logits; the shape of ``labels`` is the head's."""
        output = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            output_attentions=output_attentions,
            output_hidden_states=output_hidden_states,
            return_dict=True,
        )
        return self.with_scores(output, self.token_mask(input_ids, attention_mask), labels)


class ClassifierModel(HeadModel):
    """``model`` is the body; ``outputs`` is how many numbers the linear layer gives.

    ``pooled``: tokens are pooled by attention, in ``pooling``, before it.
    """

    def __init__(
        self,
        config: TransformerConfig,
        body: TransformerPreTrainedModel,
        outputs: int | None,
        *,
        bias: bool = True,
        pooled: bool = False,
    ) -> None:
        super().__init__(config)
        self.model = body
        rate = config.dropout if config.classifier_dropout is None else config.classifier_dropout
        self.classifier_dropout = nn.Dropout(rate)
        self.classifier: nn.Module
        if pooled:
            self.pooling, self.classifier = pooled_classifier(
                config.hidden_size, outputs or 1, config.head.aspects, bias=bias
            )
        else:
            self.classifier = nn.Linear(config.hidden_size, outputs or 1, bias=bias)
        self.post_init()

    def classify(self, states: Tensor) -> Tensor:
        """Scores (…, outputs) of states (…, D)."""
        return self.classifier(self.classifier_dropout(states))


class SpanModel(ClassifierModel):
    """Where an answer starts and ends: two numbers for each token."""

    def with_spans(self, output: Any, starts: Tensor | None, ends: Tensor | None) -> ModelOutput:
        """Start and end logits (B, T); the mean of both cross-entropies if there are positions (B,)."""
        start, end = self.classifier(output.last_hidden_state).unbind(-1)
        loss = None
        if starts is not None and ends is not None:
            loss = (_position_loss(start, starts) + _position_loss(end, ends)) / 2
        return relabel(output, self.output_class, loss=loss, start_logits=start, end_logits=end)


def _position_loss(logits: Tensor, positions: Tensor) -> Tensor:
    """Positions (B,) outside the text (B, T) count for nothing."""
    outside = (positions < 0) | (positions >= logits.shape[1])
    return token_loss(logits, positions.masked_fill(outside, IGNORED_LABEL))
