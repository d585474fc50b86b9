"""The encoder-decoder as a generator of text from text."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from transformers import GenerationMixin, PreTrainedModel
from transformers.cache_utils import Cache

from workbench.models.base import TransformerPreTrainedModel, relabel, tuple_on_request
from workbench.models.configuration import EncoderDecoderConfig
from workbench.models.contexts import one_cache
from workbench.models.encoder_decoder import TransformerEncoderDecoder, shift_right
from workbench.models.heads.base import (
    OutputLayer,
    VocabularyHead,
    keep_positions,
    step_share,
    token_loss,
)
from workbench.models.outputs import Seq2SeqOutput

__all__ = ["ConditionalGeneration", "TransformerEncoderDecoderForConditionalGeneration"]


class ConditionalGeneration(OutputLayer, PreTrainedModel, GenerationMixin):
    """Scores the next target token given the source: ``model`` is the body, ``head`` scores the vocabulary."""

    config: Any
    model: Any

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        """What the decoder reads to predict ``labels`` (B, T)."""
        return shift_right(labels, self.config.decoder_start_token_id, self.config.pad_token_id)

    @tuple_on_request
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: Any = None,
        cache: Cache | None = None,
        inputs_embeds: Tensor | None = None,
        decoder_inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        num_items_in_batch: Tensor | int | None = None,
        past_key_values: Cache | None = None,
    ) -> Seq2SeqOutput:
        """Source ids (B, S) and target ids or ``labels`` (B, T) to logits (B, T, V)."""
        if labels is not None and decoder_input_ids is None and decoder_inputs_embeds is None:
            decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        output = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            decoder_input_ids=decoder_input_ids,
            decoder_attention_mask=decoder_attention_mask,
            encoder_outputs=encoder_outputs,
            cache=one_cache(cache, past_key_values),
            inputs_embeds=inputs_embeds,
            decoder_inputs_embeds=decoder_inputs_embeds,
            use_cache=use_cache,
            output_attentions=output_attentions,
            output_hidden_states=output_hidden_states,
            return_dict=True,
        )
        logits = self.head(keep_positions(output.last_hidden_state, logits_to_keep))
        if labels is None:
            return relabel(output, Seq2SeqOutput, logits=logits)
        loss, share = token_loss(logits, labels, num_items_in_batch), step_share(labels, num_items_in_batch)
        return relabel(output, Seq2SeqOutput, share=share, loss=loss, logits=logits)


class TransformerEncoderDecoderForConditionalGeneration(ConditionalGeneration, TransformerPreTrainedModel):
    """Scores the next target token given the source; Vaswani et al. 2017, section 3.4."""

    config_class = EncoderDecoderConfig
    _tied_weights_keys = {"head.output.weight": "model.encoder.stack.embeddings.tokens.weight"}  # noqa: RUF012

    def __init__(self, config: EncoderDecoderConfig) -> None:
        super().__init__(config)
        self.model = TransformerEncoderDecoder(config)
        self.head = VocabularyHead(config)
        self.post_init()
