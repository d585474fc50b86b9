"""Labels from an encoder-decoder: the text goes to both sides, and the decoder's states are read.

Lewis et al. 2020, "BART", sections 3.1 and 3.2: the state of the last token stands for the text, that of each token
for the token. The decoder reads the text itself, not shifted; it may see all of it through the encoder anyway.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from transformers.modeling_outputs import (
    Seq2SeqQuestionAnsweringModelOutput,
    TokenClassifierOutput,
)
from transformers.utils.generic import ModelOutput

from workbench.models.base import tuple_on_request
from workbench.models.configuration import EncoderDecoderConfig
from workbench.models.encoder_decoder import TransformerEncoderDecoder
from workbench.models.heads.base import ClassifierModel, SpanModel
from workbench.models.heads.pooling import PooledSeq2SeqClassifierOutput
from workbench.models.heads.sequence_classification import TextClassifier

__all__ = [
    "TransformerEncoderDecoderForQuestionAnswering",
    "TransformerEncoderDecoderForSequenceClassification",
    "TransformerEncoderDecoderForTokenClassification",
]


class _FromBothSides(ClassifierModel):
    config_class = EncoderDecoderConfig

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


class _ForLabels(_FromBothSides):
    @tuple_on_request
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
    ) -> ModelOutput:
        """Ids (B, T) to logits; see :meth:`scores`."""
        output = self.read(input_ids, attention_mask, inputs_embeds, output_attentions, output_hidden_states)
        return self.with_scores(output, attention_mask, labels)


class TransformerEncoderDecoderForSequenceClassification(TextClassifier, _ForLabels):
    """A label or a number from the decoder's state of the last token (BART, section 3.1), or as ``head.pooling`` says.

    Its first token reads the source too, so that it may stand for the text.
    """

    config_class = EncoderDecoderConfig
    output_class = PooledSeq2SeqClassifierOutput
    usual_pooling = "last"

    def __init__(self, config: EncoderDecoderConfig) -> None:
        super().__init__(config, TransformerEncoderDecoder(config))


class TransformerEncoderDecoderForTokenClassification(_ForLabels):
    """A label for each token from its state in the decoder; BART, section 3.2."""

    output_class = TokenClassifierOutput

    def __init__(self, config: EncoderDecoderConfig) -> None:
        super().__init__(config, TransformerEncoderDecoder(config), config.num_labels)

    def scores(self, output: Any, mask: Tensor | None) -> Tensor:
        """Logits (B, T, labels); ``labels`` are (B, T), -100 where there is none."""
        return self.classify(output.last_hidden_state)

    def with_scores(self, output: Any, mask: Tensor | None, labels: Tensor | None) -> ModelOutput:
        """The decoder's states and attentions under the names that an output for tokens has."""
        found = super().with_scores(output, mask, labels)
        found["hidden_states"], found["attentions"] = output.decoder_hidden_states, output.decoder_attentions
        return found


class TransformerEncoderDecoderForQuestionAnswering(_FromBothSides, SpanModel):
    """Where the answer starts and ends, from each token's state in the decoder; BART, section 4.2 (SQuAD)."""

    output_class = Seq2SeqQuestionAnsweringModelOutput

    def __init__(self, config: EncoderDecoderConfig) -> None:
        super().__init__(config, TransformerEncoderDecoder(config), 2)

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
    ) -> ModelOutput:
        """Ids (B, T) to start and end logits (B, T); positions (B,) outside the text count for nothing."""
        output = self.read(input_ids, attention_mask, inputs_embeds, output_attentions, output_hidden_states)
        return self.with_spans(output, start_positions, end_positions)
