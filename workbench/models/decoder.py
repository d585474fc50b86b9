"""The decoder: causal self-attention, and cross-attention where it has a source."""

from __future__ import annotations

from torch import Tensor, nn
from transformers import EncoderDecoderCache
from transformers.cache_utils import Cache

from workbench.errors import ConfigError
from workbench.models.base import TransformerPreTrainedModel, tuple_on_request
from workbench.models.configuration import DecoderConfig, TransformerConfig
from workbench.models.contexts import new_cache, one_cache, self_contexts, source_context
from workbench.models.outputs import StackOutput, pick_vectors
from workbench.models.stacks import make_stack

__all__ = ["TransformerDecoder"]


class TransformerDecoder(TransformerPreTrainedModel):
    """Tokens in, one vector per token out; each sees only itself and those before it.

    Radford et al. 2018, "Improving Language Understanding by Generative Pre-Training", section 3.1.
    """

    config_class = DecoderConfig

    def __init__(self, config: TransformerConfig, *, has_source: bool = False) -> None:
        super().__init__(config)
        self.has_source = has_source
        self.stack = make_stack(config, is_causal=True, has_source=has_source)
        self.gradient_checkpointing = False
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        """The token table."""
        return self.stack.embeddings.tokens

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the token table."""
        self.stack.embeddings.tokens = value  # type: ignore[assignment]

    @tuple_on_request
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | dict[str, Tensor] | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        cache: Cache | None = None,
        use_cache: bool | None = None,
        encoder_hidden_states: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        past_key_values: Cache | None = None,
    ) -> StackOutput:
        """Ids (B, T) to states (B, T, D); with a ``cache``, the new tokens only. Masks: nonzero at tokens.

        ``past_key_values`` is the older name of ``cache``, which transformers still takes.
        ``use_cache`` defaults to the configuration's while evaluating, and to false while training.
        """
        cache = one_cache(cache, past_key_values)
        vectors = pick_vectors(self.stack.embeddings.look_up, input_ids, inputs_embeds)
        if self.has_source and encoder_hidden_states is None:
            raise ConfigError(
                "encoder_hidden_states = None: cross-attention needs the encoder's states (B, S, D)"
            )
        if use_cache is None:
            use_cache = self.config.use_cache and not self.training
        if use_cache and cache is None:
            cache = new_cache(self.config, has_source=self.has_source)
        own_cache = cache.self_attention_cache if isinstance(cache, EncoderDecoderCache) else cache
        seen = own_cache.get_seq_length() if own_cache is not None else 0
        positions = self.stack.place(vectors, seen) if position_ids is None else position_ids

        hidden = self.stack.embeddings(vectors, positions, token_type_ids)
        output: StackOutput = self.stack(
            hidden,
            self_contexts(self.stack, hidden, attention_mask, positions, own_cache, position_ids),
            source_context(self.config, hidden, encoder_hidden_states, encoder_attention_mask, cache),
            positions=positions,
            keep_hidden=output_hidden_states,
            keep_attentions=output_attentions,
        )
        output.cache = cache if use_cache else None
        return output
