"""One label, number or choice for a whole text."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor
from torch.nn import functional as F
from transformers import PreTrainedConfig
from transformers.modeling_outputs import MultipleChoiceModelOutput
from transformers.utils.generic import ModelOutput

from workbench.errors import ConfigError
from workbench.models.base import TransformerPreTrainedModel, relabel, tuple_on_request
from workbench.models.configuration import DecoderConfig, EncoderConfig, TransformerConfig
from workbench.models.decoder import TransformerDecoder
from workbench.models.encoder import TransformerEncoder
from workbench.models.heads.base import ClassifierModel, LabelModel, token_loss
from workbench.models.heads.pooling import PooledClassifierOutput, fixed_pooling
from workbench.models.parts import require

__all__ = [
    "TextClassifier",
    "TransformerDecoderForSequenceClassification",
    "TransformerEncoderForMultipleChoice",
    "TransformerEncoderForSequenceClassification",
    "text_loss",
]


def text_loss(config: PreTrainedConfig, logits: Tensor, labels: Tensor) -> Tensor:
    """Squared error, cross-entropy, or one binary cross-entropy a label, for logits (B, labels).

    Which one is ``config.problem_type``, or follows from the number and the type of the labels.
    """
    problem = config.problem_type
    if problem is None:
        problem = (
            "multi_label_classification" if labels.is_floating_point() else "single_label_classification"
        )
        problem = "regression" if config.num_labels == 1 else problem
    if problem == "regression":
        return F.mse_loss(logits.squeeze(), labels.squeeze().to(logits.dtype))
    if problem == "single_label_classification":
        return token_loss(logits, labels)
    return F.binary_cross_entropy_with_logits(logits, labels)


class TextClassifier(ClassifierModel):
    """Scores of a whole text, from the vector that ``config.head.pooling`` says, or that is usual for the shape."""

    usual_pooling: ClassVar[str]

    def __init__(
        self, config: TransformerConfig, body: TransformerPreTrainedModel, *, bias: bool = True
    ) -> None:
        pooled = config.head.pooling == "attention"
        super().__init__(config, body, config.num_labels, bias=bias, pooled=pooled)

    def pool(self, output: Any, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """The vector of a text (B, D), or those of its aspects (B, A, D) with the weights of tokens (B, A, T)."""
        if self.config.head.pooling == "attention":
            vectors, weights = self.pooling(output.last_hidden_state, mask)
            return vectors, weights
        kind = self.config.head.pooling or self.usual_pooling
        return fixed_pooling(kind, output.last_hidden_state, mask), None

    def with_scores(self, output: Any, mask: Tensor | None, labels: Tensor | None) -> ModelOutput:
        """Logits (B, labels); ``labels`` are indices or numbers (B,), or 0 and 1 (B, labels)."""
        vector, weights = self.pool(output, mask)
        logits = self.classify(vector)
        loss = None if labels is None else text_loss(self.config, logits, labels)
        return relabel(output, self.output_class, loss=loss, logits=logits, pooling_weights=weights)


class _ForSequenceClassification(TextClassifier, LabelModel):
    output_class = PooledClassifierOutput

    def token_mask(self, input_ids: Tensor | None, attention_mask: Tensor | None) -> Tensor | None:
        """Without a mask, what is not the padding token."""
        padding = self.config.pad_token_id
        if attention_mask is None and input_ids is not None and padding is not None:
            return input_ids != padding
        return attention_mask


class TransformerEncoderForSequenceClassification(_ForSequenceClassification):
    """A label from the first token's state (Devlin et al. 2019, "BERT", section 4.1), unless another pooling is set."""

    config_class = EncoderConfig
    usual_pooling = "first"

    def __init__(self, config: EncoderConfig) -> None:
        reads_first = config.head.pooling in (None, "first")
        super().__init__(config, TransformerEncoder(config, has_pooler=reads_first))

    def pool(self, output: Any, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """The first state through the pooler, where there is one."""
        pooled: Tensor | None = output.pooler_output
        return super().pool(output, mask) if pooled is None else (pooled, None)


class TransformerDecoderForSequenceClassification(_ForSequenceClassification):
    """A label from the last token's state (Radford et al. 2018, section 3.2, who append a token for it), or as set."""

    config_class = DecoderConfig
    usual_pooling = "last"

    def __init__(self, config: DecoderConfig) -> None:
        allowed = "last, mean, attention; the first token of a decoder sees no other"
        require(config.head.pooling != "first", "head.pooling", "first", allowed)
        super().__init__(config, TransformerDecoder(config), bias=False)


class TransformerEncoderForMultipleChoice(ClassifierModel):
    """A score for each choice, from the pooled states of question and choice; BERT, section 4.4 (SWAG)."""

    config_class = EncoderConfig

    def __init__(self, config: EncoderConfig) -> None:
        if config.head.pooler is None:
            raise ConfigError("head.pooler = None is not allowed for multiple choice; allowed: an activation")
        super().__init__(config, TransformerEncoder(config), 1)

    @tuple_on_request
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        labels: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
    ) -> MultipleChoiceModelOutput:
        """Ids (B, choices, T) to logits (B, choices); ``labels`` (B,) are indices of choices."""
        output = self.model(
            input_ids=input_ids.flatten(0, 1),
            attention_mask=_flat(attention_mask),
            token_type_ids=_flat(token_type_ids),
            position_ids=_flat(position_ids),
            output_attentions=output_attentions,
            output_hidden_states=output_hidden_states,
            return_dict=True,
        )
        logits = self.classify(output.pooler_output).view(input_ids.shape[:2])
        loss = None if labels is None else token_loss(logits, labels)
        return relabel(output, MultipleChoiceModelOutput, loss=loss, logits=logits)


def _flat(ids: Tensor | None) -> Tensor | None:
    return None if ids is None else ids.flatten(0, 1)
