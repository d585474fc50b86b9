"""The decoder as a language model."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F
from transformers import GenerationMixin
from transformers.cache_utils import Cache

from workbench.models.base import relabel, tuple_on_request
from workbench.models.configuration import DecoderConfig
from workbench.models.contexts import one_cache
from workbench.models.decoder import TransformerDecoder
from workbench.models.heads.base import (
    IGNORED_LABEL,
    VocabularyHead,
    VocabularyModel,
    keep_positions,
    step_share,
    token_loss,
)
from workbench.models.outputs import CausalOutput

__all__ = ["TransformerDecoderForCausalLM"]


class TransformerDecoderForCausalLM(VocabularyModel, GenerationMixin):
    """Scores the next token at each position; Radford et al. 2018, equation 1 is its loss."""

    config_class = DecoderConfig
    _tied_weights_keys = {"head.output.weight": "model.stack.embeddings.tokens.weight"}  # noqa: RUF012

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__(config)
        self.model = TransformerDecoder(config)
        self.head = VocabularyHead(config)
        self.post_init()

    @tuple_on_request
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | dict[str, Tensor] | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        cache: Cache | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        num_items_in_batch: Tensor | int | None = None,
        past_key_values: Cache | None = None,
    ) -> CausalOutput:
        """Ids (B, T) to logits (B, T, V), or (B, n, V) with ``logits_to_keep`` = n.

        ``past_key_values`` is the older name of ``cache``, which transformers still takes.

        ``labels`` (B, T) are the ids themselves: position t is scored on label t + 1.
        """
        output = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            cache=one_cache(cache, past_key_values),
            use_cache=use_cache,
            output_attentions=output_attentions,
            output_hidden_states=output_hidden_states,
            return_dict=True,
        )
        logits = self.head(keep_positions(output.last_hidden_state, logits_to_keep))
        loss: Tensor | None = None
        share: Tensor | float = 1.0
        if labels is not None:
            next_labels = F.pad(labels[:, 1:], (0, 1), value=IGNORED_LABEL)
            loss = token_loss(logits, next_labels, num_items_in_batch)
            share = step_share(next_labels, num_items_in_batch)
        return relabel(output, CausalOutput, share=share, loss=loss, logits=logits)
