"""Encoder and decoder together, as first published: the decoder attends to the encoder's states."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.cache_utils import Cache
from transformers.modeling_outputs import BaseModelOutput

from workbench.errors import ConfigError
from workbench.models.base import TransformerPreTrainedModel, tuple_on_request
from workbench.models.configuration import EncoderDecoderConfig
from workbench.models.contexts import one_cache
from workbench.models.decoder import TransformerDecoder
from workbench.models.encoder import TransformerEncoder
from workbench.models.outputs import EncoderDecoderOutput

__all__ = ["EncoderDecoderBody", "TransformerEncoderDecoder", "shift_right"]


def shift_right(ids: Tensor, start_id: int | None, padding_id: int | None) -> Tensor:
    """What a decoder reads to predict ``ids`` (B, T): the start token, then all but the last.

    Labels of -100 become padding. Raises :class:`~workbench.errors.ConfigError` without a start token.
    """
    if start_id is None:
        raise ConfigError("decoder_start_token_id = None: allowed is a token id; or give decoder_input_ids")
    shifted = ids.roll(1, dims=-1)
    shifted[..., 0] = start_id
    return shifted.masked_fill(shifted < 0, padding_id or 0)


class EncoderDecoderBody(PreTrainedModel):
    """What all encoder-decoders share: ``encoder`` and ``decoder`` read one token table and run in turn."""

    encoder: Any
    decoder: Any

    def get_expanded_tied_weights_keys(self, all_submodels: bool = False) -> dict[str, str]:
        """The decoder's token table is the encoder's, whether or not the output layer is."""
        if all_submodels:
            return super().get_expanded_tied_weights_keys(all_submodels=True)
        return dict(self._tied_weights_keys or {})

    def get_input_embeddings(self) -> nn.Module:
        """The shared token table."""
        return self.encoder.get_input_embeddings()

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the shared token table."""
        self.encoder.set_input_embeddings(value)
        self.decoder.set_input_embeddings(value)

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
        use_cache: bool | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        past_key_values: Cache | None = None,
    ) -> EncoderDecoderOutput:
        """Source ids (B, S) and target ids (B, T) to target states (B, T, D)."""
        kept = {"output_attentions": output_attentions, "output_hidden_states": output_hidden_states}
        if encoder_outputs is None:
            encoder_outputs = self.encoder(
                input_ids, attention_mask, inputs_embeds=inputs_embeds, return_dict=True, **kept
            )
        elif not hasattr(encoder_outputs, "last_hidden_state"):
            encoder_outputs = BaseModelOutput(*encoder_outputs)
        output = self.decoder(
            decoder_input_ids,
            decoder_attention_mask,
            inputs_embeds=decoder_inputs_embeds,
            cache=one_cache(cache, past_key_values),
            use_cache=use_cache,
            encoder_hidden_states=encoder_outputs.last_hidden_state,
            encoder_attention_mask=attention_mask,
            return_dict=True,
            **kept,
        )
        auxiliary = [getattr(side, "auxiliary_loss", None) for side in (encoder_outputs, output)]
        losses = [loss for loss in auxiliary if loss is not None]
        return EncoderDecoderOutput(
            last_hidden_state=output.last_hidden_state,
            cache=output.cache,
            decoder_hidden_states=output.hidden_states,
            decoder_attentions=output.attentions,
            cross_attentions=output.cross_attentions,
            encoder_last_hidden_state=encoder_outputs.last_hidden_state,
            encoder_hidden_states=encoder_outputs.hidden_states,
            encoder_attentions=encoder_outputs.attentions,
            auxiliary_loss=torch.stack(losses).sum() if losses else None,
        )


class TransformerEncoderDecoder(EncoderDecoderBody, TransformerPreTrainedModel):
    """Vaswani et al. 2017, "Attention Is All You Need", figure 1. Both sides share the token table."""

    config_class = EncoderDecoderConfig
    _tied_weights_keys = {  # noqa: RUF012
        "decoder.stack.embeddings.tokens.weight": "encoder.stack.embeddings.tokens.weight"
    }

    def __init__(self, config: EncoderDecoderConfig) -> None:
        super().__init__(config)
        self.encoder = TransformerEncoder(config, has_pooler=False)
        self.decoder = TransformerDecoder(config, has_source=True)
        self.post_init()
