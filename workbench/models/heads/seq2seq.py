"""Labels from an encoder-decoder: the text goes to both sides, and the decoder's states are read.

Lewis et al. 2020, "BART", sections 4.1 and 4.2: the state of the last token stands for the text, that of each token
for the token. The decoder reads the text itself, not shifted; it may see all of it through the encoder anyway.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from transformers.modeling_outputs import (
    Seq2SeqQuestionAnsweringModelOutput,
    Seq2SeqSequenceClassifierOutput,
    TokenClassifierOutput,
)

from workbench.models.base import relabel, tuple_on_request
from workbench.models.configuration import EncoderDecoderConfig
from workbench.models.encoder_decoder import TransformerEncoderDecoder
from workbench.models.heads.base import ClassifierModel, token_loss
from workbench.models.heads.sequence_classification import text_loss
from workbench.models.heads.token_classification import span_loss
from workbench.nn import last_token

__all__ = [
    "TransformerEncoderDecoderForQuestionAnswering",
    "TransformerEncoderDecoderForSequenceClassification",
    "TransformerEncoderDecoderForTokenClassification",
]


class _FromBothSides(ClassifierModel):
    config_class = EncoderDecoderConfig

    def __init__(self, config: EncoderDecoderConfig, outputs: int | None = None) -> None:
        super().__init__(config, TransformerEncoderDecoder(config), outputs or config.num_labels)

    def read(
        self,
        input_ids: Tensor | None,
        attention_mask: Tensor | None,
        inputs_embeds: Tensor | None,
        output_attentions: bool | None,
        output_hidden_states: bool | None,
    ) -> Any:
        """The body's output, states (B, T, D), for ids or vectors given to both sides."""
        return self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            decoder_input_ids=input_ids,
            decoder_attention_mask=attention_mask,
            inputs_embeds=inputs_embeds,
            decoder_inputs_embeds=inputs_embeds,
            use_cache=False,
            output_attentions=output_attentions,
            output_hidden_states=output_hidden_states,
            return_dict=True,
        )


class TransformerEncoderDecoderForSequenceClassification(_FromBothSides):
    """A label or a number from the decoder's state of the last token; BART, section 4.1."""

    @tuple_on_request
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
    ) -> Seq2SeqSequenceClassifierOutput:
        """Ids (B, T) to logits (B, labels); ``labels``: indices or numbers (B,), or 0 and 1 (B, labels)."""
        output = self.read(input_ids, attention_mask, inputs_embeds, output_attentions, output_hidden_states)
        logits = self.classify(last_token(output.last_hidden_state, attention_mask))
        loss = None if labels is None else text_loss(self.config, logits, labels)
        return relabel(output, Seq2SeqSequenceClassifierOutput, loss=loss, logits=logits)


class TransformerEncoderDecoderForTokenClassification(_FromBothSides):
    """A label for each token from its state in the decoder; BART, section 4.2."""

    @tuple_on_request
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
    ) -> TokenClassifierOutput:
        """Ids (B, T) to logits (B, T, labels); ``labels`` (B, T), -100 where there is none."""
        output = self.read(input_ids, attention_mask, inputs_embeds, output_attentions, output_hidden_states)
        logits = self.classify(output.last_hidden_state)
        loss = None if labels is None else token_loss(logits, labels)
        return TokenClassifierOutput(
            loss=loss,
            logits=logits,
            hidden_states=output.decoder_hidden_states,
            attentions=output.decoder_attentions,
        )


class TransformerEncoderDecoderForQuestionAnswering(_FromBothSides):
    """Where the answer starts and ends, from each token's state in the decoder; BART, section 5.1 (SQuAD)."""

    def __init__(self, config: EncoderDecoderConfig) -> None:
        super().__init__(config, 2)

    @tuple_on_request
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        start_positions: Tensor | None = None,
        end_positions: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
    ) -> Seq2SeqQuestionAnsweringModelOutput:
        """Ids (B, T) to start and end logits (B, T); positions (B,) outside the text count for nothing."""
        output = self.read(input_ids, attention_mask, inputs_embeds, output_attentions, output_hidden_states)
        start, end = self.classifier(output.last_hidden_state).unbind(-1)
        loss = span_loss(start, end, start_positions, end_positions)
        return relabel(
            output, Seq2SeqQuestionAnsweringModelOutput, loss=loss, start_logits=start, end_logits=end
        )
