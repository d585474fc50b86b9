"""ELMo: hidden states of a forward and a backward language model, layer by layer.

Peters et al. 2018, "Deep Contextualized Word Representations", section 3.1. Left out: the convolutions over characters
that token vectors come from there (here a table, shared by both directions), the bounds of states and projections, and
the sampled softmax. Axes: B text, T token, E width of a token vector and of one direction's states.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers.modeling_outputs import BaseModelOutput
from transformers.utils.generic import ModelOutput

from workbench.models.ancestors.base import AncestorPreTrainedModel, LinearHead, TokenTable
from workbench.models.ancestors.elmo_configuration import ElmoConfig
from workbench.models.base import tuple_on_request
from workbench.models.heads.base import IGNORED_LABEL, OutputLayer, token_loss
from workbench.models.outputs import kept, pick_vectors
from workbench.nn.recurrent import RecurrentLayer, TokenOrder

__all__ = ["BidirectionalOutput", "ElmoLanguageModel", "ElmoModel"]


class ElmoLayer(nn.Module):
    """One layer of both directions, each of which reads its own states of the layer below."""

    def __init__(self, config: ElmoConfig, *, is_first: bool) -> None:
        super().__init__()
        width, units = config.direction_size, config.recurrence.units
        self.adds = config.recurrence.residual and not is_first
        self.to_right = RecurrentLayer(kind="lstm", inputs=width, width=width, units=units)
        self.to_left = RecurrentLayer(kind="lstm", inputs=width, width=width, units=units)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, states: Tensor, order: TokenOrder) -> Tensor:
        """States (B, T, 2 E), forward and backward side by side, to those of this layer."""
        onward, back = self.dropout(states).chunk(2, dim=-1)
        found = torch.cat((self.to_right(onward, order), self.to_left(back, order.backwards())), dim=-1)
        return states + found if self.adds else found


class ElmoModel(TokenTable, AncestorPreTrainedModel):
    """Tokens in, states (B, T, 2 E) out; of each layer, and of the token vectors, doubled, before them."""

    config_class = ElmoConfig
    config: ElmoConfig

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__(config)
        self.tokens = nn.Embedding(config.vocab_size, config.direction_size)
        self.layers = nn.ModuleList(
            ElmoLayer(config, is_first=number == 0) for number in range(config.depth.layers)
        )
        self.post_init()

    @tuple_on_request
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
    ) -> BaseModelOutput:
        """Ids (B, T), or vectors (B, T, E), to states; the mask is nonzero at tokens.

        The forward half of a state knows its token and those before it, the backward half its token and those after.
        Hidden states begin with the token vectors twice over (equation 1, j = 0).
        """
        vectors = pick_vectors(self.tokens, input_ids, inputs_embeds)
        order = TokenOrder.of(attention_mask, vectors)
        states = [torch.cat((vectors, vectors), dim=-1)]
        for layer in self.layers:
            states.append(layer(states[-1], order))
        keep_hidden, _ = kept(self.config, output_hidden_states, output_attentions)
        return BaseModelOutput(
            last_hidden_state=states[-1], hidden_states=tuple(states) if keep_hidden else None
        )


@dataclass
class BidirectionalOutput(ModelOutput):
    """``logits`` (B, T, V) at a token are of the next one, ``backward_logits`` (B, T, V) of the one before it."""

    loss: Tensor | None = None
    logits: Tensor | None = None
    backward_logits: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None


class ElmoLanguageModel(OutputLayer, AncestorPreTrainedModel):
    """Both language models, with one output layer for both.

    The loss is the sum of their two cross-entropies in nats per scored token: section 3.1, the last equation.
    """

    config_class = ElmoConfig
    config: ElmoConfig
    _tied_weights_keys = {"head.output.weight": "model.tokens.weight"}  # noqa: RUF012

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__(config)
        self.model = ElmoModel(config)
        self.dropout = nn.Dropout(config.dropout)
        self.head = LinearHead(config.direction_size, config.vocab_size)
        self.post_init()

    @tuple_on_request
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        num_items_in_batch: Tensor | int | None = None,
    ) -> BidirectionalOutput:
        """Ids (B, T) to logits; ``labels`` (B, T) are the ids themselves, -100 where there is none to predict."""
        output = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            inputs_embeds=inputs_embeds,
            output_attentions=output_attentions,
            output_hidden_states=output_hidden_states,
            return_dict=True,
        )
        onward, back = self.dropout(output.last_hidden_state).chunk(2, dim=-1)
        logits, backward_logits = self.head(onward), self.head(back)
        loss = None
        if labels is not None:
            counts = [None, None] if num_items_in_batch is None else _pair(num_items_in_batch)
            losses = [
                token_loss(found, wanted, count)
                for found, wanted, count in zip(
                    (logits, backward_logits), neighbour_labels(labels), counts, strict=True
                )
            ]
            loss = losses[0] + losses[1]
        return BidirectionalOutput(
            loss=loss, logits=logits, backward_logits=backward_logits, hidden_states=output.hidden_states
        )

    def scored_counts(
        self, input_ids: Tensor, labels: Tensor, attention_mask: Tensor | None = None
    ) -> Tensor:
        """Tokens that each direction predicts, (direction,)."""
        return torch.stack([(wanted != IGNORED_LABEL).sum() for wanted in neighbour_labels(labels)])


def neighbour_labels(labels: Tensor) -> tuple[Tensor, Tensor]:
    """The labels (B, T) of the next token at each labelled place, and of the one before it; -100 beyond the ends."""
    nothing = labels == IGNORED_LABEL
    return (
        F.pad(labels[:, 1:], (0, 1), value=IGNORED_LABEL).masked_fill(nothing, IGNORED_LABEL),
        F.pad(labels[:, :-1], (1, 0), value=IGNORED_LABEL).masked_fill(nothing, IGNORED_LABEL),
    )


def _pair(counts: Tensor | int) -> list[Tensor]:
    """One number for both directions, or one for each."""
    flat = torch.as_tensor(counts).reshape(-1)
    return [flat[0], flat[1] if flat.numel() > 1 else flat[0]]
