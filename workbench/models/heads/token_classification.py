"""Labels for tokens, one by one, and spans."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from transformers.modeling_outputs import QuestionAnsweringModelOutput, TokenClassifierOutput
from transformers.utils.generic import ModelOutput

from workbench.models.base import tuple_on_request
from workbench.models.configuration import DecoderConfig, EncoderConfig
from workbench.models.decoder import TransformerDecoder
from workbench.models.encoder import TransformerEncoder
from workbench.models.heads.base import ClassifierModel, LabelModel, SpanModel

__all__ = [
    "TransformerDecoderForQuestionAnswering",
    "TransformerDecoderForTokenClassification",
    "TransformerEncoderForQuestionAnswering",
    "TransformerEncoderForTokenClassification",
]


class _ForTokenClassification(ClassifierModel, LabelModel):
    output_class = TokenClassifierOutput

    def scores(self, output: Any, mask: Tensor | None) -> Tensor:
        """Logits (B, T, labels); ``labels`` are (B, T), -100 where there is none."""
        return self.classify(output.last_hidden_state)


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


class _ForQuestionAnswering(SpanModel):
    output_class = QuestionAnsweringModelOutput

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
    ) -> ModelOutput:
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
        return self.with_spans(output, start_positions, end_positions)


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
