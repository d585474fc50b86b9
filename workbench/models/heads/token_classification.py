"""One label for each token, and spans."""

from __future__ import annotations

from torch import Tensor
from transformers.modeling_outputs import QuestionAnsweringModelOutput, TokenClassifierOutput

from workbench.models.base import relabel, tuple_on_request
from workbench.models.configuration import DecoderConfig, EncoderConfig
from workbench.models.decoder import TransformerDecoder
from workbench.models.encoder import TransformerEncoder
from workbench.models.heads.base import IGNORED_LABEL, ClassifierModel, token_loss

__all__ = [
    "TransformerDecoderForQuestionAnswering",
    "TransformerDecoderForTokenClassification",
    "TransformerEncoderForQuestionAnswering",
    "TransformerEncoderForTokenClassification",
    "span_loss",
]


class _ForTokenClassification(ClassifierModel):
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
    ) -> TokenClassifierOutput:
        """Ids (B, T) to logits (B, T, labels); ``labels`` (B, T), -100 where there is none."""
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
        logits = self.classify(output.last_hidden_state)
        loss = None if labels is None else token_loss(logits, labels)
        return relabel(output, TokenClassifierOutput, loss=loss, logits=logits)


class TransformerEncoderForTokenClassification(_ForTokenClassification):
    """A label for each token; Devlin et al. 2019, "BERT", section 5.3."""

    config_class = EncoderConfig

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(config, TransformerEncoder(config, has_pooler=False), config.num_labels)


class TransformerDecoderForTokenClassification(_ForTokenClassification):
    """A label for each token, from what comes before it."""

    config_class = DecoderConfig

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__(config, TransformerDecoder(config), config.num_labels)


class _ForQuestionAnswering(ClassifierModel):
    @tuple_on_request
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        start_positions: Tensor | None = None,
        end_positions: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
    ) -> QuestionAnsweringModelOutput:
        """Ids (B, T) to start and end logits (B, T); positions (B,) outside the text count for nothing."""
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
        start, end = self.classifier(output.last_hidden_state).unbind(-1)
        loss = span_loss(start, end, start_positions, end_positions)
        return relabel(output, QuestionAnsweringModelOutput, loss=loss, start_logits=start, end_logits=end)


class TransformerEncoderForQuestionAnswering(_ForQuestionAnswering):
    """Where the answer starts and ends; Devlin et al. 2019, "BERT", section 4.2."""

    config_class = EncoderConfig

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(config, TransformerEncoder(config, has_pooler=False), 2)


class TransformerDecoderForQuestionAnswering(_ForQuestionAnswering):
    """Where the answer starts and ends, each token judged from what comes before it."""

    config_class = DecoderConfig

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__(config, TransformerDecoder(config), 2)


def span_loss(start: Tensor, end: Tensor, starts: Tensor | None, ends: Tensor | None) -> Tensor | None:
    """Mean of both cross-entropies, logits (B, T) and positions (B,); ``None`` without positions."""
    if starts is None or ends is None:
        return None
    return (_position_loss(start, starts) + _position_loss(end, ends)) / 2


def _position_loss(logits: Tensor, positions: Tensor) -> Tensor:
    outside = (positions < 0) | (positions >= logits.shape[1])
    return token_loss(logits, positions.masked_fill(outside, IGNORED_LABEL))
