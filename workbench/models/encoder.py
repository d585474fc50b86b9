"""The encoder: every token sees every other one."""

from __future__ import annotations

from torch import Tensor, nn

from workbench.models.base import TransformerPreTrainedModel, relabel, tuple_on_request
from workbench.models.configuration import EncoderConfig, TransformerConfig
from workbench.models.contexts import self_contexts
from workbench.models.outputs import EncoderOutput, pick_vectors
from workbench.models.stacks import make_stack
from workbench.nn import ACTIVATIONS, first_token

__all__ = ["Pooler", "TransformerEncoder"]


class Pooler(nn.Module):
    """A dense layer over the first token's state; Devlin et al. 2019, "BERT", section 3.1."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.activation = ACTIVATIONS[config.head.pooler or "linear"]

    def forward(self, hidden: Tensor) -> Tensor:
        """States (B, T, D) to one vector per text (B, D)."""
        return self.activation(self.dense(first_token(hidden)))


class TransformerEncoder(TransformerPreTrainedModel):
    """Tokens in, one vector per token out, and one per text where there is a pooler. Vaswani et al. 2017."""

    config_class = EncoderConfig

    def __init__(self, config: TransformerConfig, *, has_pooler: bool = True) -> None:
        super().__init__(config)
        self.stack = make_stack(config, is_causal=False)
        self.pooler = Pooler(config) if has_pooler and config.head.pooler else None
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
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
    ) -> EncoderOutput:
        """Ids (B, T) to states (B, T, D); ``attention_mask`` (B, T) is nonzero at tokens."""
        vectors = pick_vectors(self.stack.embeddings.look_up, input_ids, inputs_embeds)
        position_ids = self._positions(input_ids, vectors) if position_ids is None else position_ids
        hidden = self.stack.embeddings(vectors, position_ids, token_type_ids)
        output = self.stack(
            hidden,
            self_contexts(self.stack, hidden, attention_mask, position_ids),
            positions=position_ids,
            keep_hidden=output_hidden_states,
            keep_attentions=output_attentions,
        )
        pooled = self.pooler(output.last_hidden_state) if self.pooler is not None else None
        return relabel(output, EncoderOutput, pooler_output=pooled)

    def _positions(self, ids: Tensor | None, vectors: Tensor) -> Tensor:
        """Places in the row, (1, T); or, skipping padding, the count of tokens before each, -1 at padding."""
        if ids is None or not self.config.positions.skip_padding:
            return self.stack.place(vectors, 0)
        self.config.check_length(ids.shape[1])
        is_token = ids.ne(self.config.pad_token_id or 0).long()
        return is_token.cumsum(-1) * is_token - 1
