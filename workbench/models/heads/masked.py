"""The encoder's own pre-training objectives."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from workbench.errors import ConfigError
from workbench.models.base import relabel, tuple_on_request
from workbench.models.configuration import EncoderConfig
from workbench.models.encoder import TransformerEncoder
from workbench.models.heads.base import (
    IGNORED_LABEL,
    LabelModel,
    VocabularyHead,
    VocabularyModel,
    keep_positions,
    step_share,
    token_loss,
)
from workbench.models.outputs import MaskedOutput, PreTrainingOutput
from workbench.nn import ACTIVATIONS

__all__ = [
    "TransformerEncoderForMaskedLM",
    "TransformerEncoderForPreTraining",
    "TransformerEncoderForReplacedTokenDetection",
]


class _MaskedModel(VocabularyModel):
    config_class = EncoderConfig
    _tied_weights_keys = {"head.output.weight": "model.stack.embeddings.tokens.weight"}  # noqa: RUF012


class TransformerEncoderForMaskedLM(_MaskedModel):
    """Scores what stood at masked positions; Devlin et al. 2019, "BERT", section 3.1, task 1."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(config)
        self.model = TransformerEncoder(config, has_pooler=False)
        self.head = VocabularyHead(config)
        self.post_init()

    @tuple_on_request
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        logits_to_keep: int | Tensor = 0,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        num_items_in_batch: Tensor | int | None = None,
    ) -> MaskedOutput:
        """Ids (B, T) to logits (B, T, V); ``labels`` (B, T), -100 where nothing is to be predicted."""
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
        logits = self.head(keep_positions(output.last_hidden_state, logits_to_keep))
        if labels is None:
            return relabel(output, MaskedOutput, logits=logits)
        loss, share = token_loss(logits, labels, num_items_in_batch), step_share(labels, num_items_in_batch)
        return relabel(output, MaskedOutput, share=share, loss=loss, logits=logits)


class TransformerEncoderForPreTraining(_MaskedModel):
    """Masked tokens, and whether the second sentence follows the first; BERT, section 3.1, both tasks."""

    def __init__(self, config: EncoderConfig) -> None:
        if config.head.pooler is None:
            raise ConfigError("head.pooler = None is not allowed for sentence pairs; allowed: an activation")
        super().__init__(config)
        self.model = TransformerEncoder(config)
        self.head = VocabularyHead(config)
        self.relationship = nn.Linear(config.hidden_size, 2)
        self.post_init()

    @tuple_on_request
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        next_sentence_label: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        num_items_in_batch: Tensor | None = None,
    ) -> PreTrainingOutput:
        """``labels`` (B, T) as for masked tokens, ``next_sentence_label`` (B,): 0 follows, 1 is random.

        ``num_items_in_batch`` are the labels of all batches of a step, as :meth:`scored_counts` gives them.
        """
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
        logits, relationship = self.head(output.last_hidden_state), self.relationship(output.pooler_output)
        loss: Tensor | None = None
        share: Tensor | float = 1.0
        if labels is not None and next_sentence_label is not None:
            totals = (None, None) if num_items_in_batch is None else num_items_in_batch.reshape(-1, 2)[0]
            masked = token_loss(logits, labels, totals[0])
            share = step_share(labels, totals[0])
            loss = masked + token_loss(relationship, next_sentence_label, totals[1])
        return relabel(
            output,
            PreTrainingOutput,
            share=share,
            loss=loss,
            prediction_logits=logits,
            seq_relationship_logits=relationship,
        )

    def scored_counts(self, labels: Tensor, next_sentence_label: Tensor, **inputs: Tensor) -> Tensor:
        """Labels of a batch's masked tokens and of its pairs, (2,): what its two losses are means over."""
        pairs = torch.tensor(len(next_sentence_label), device=labels.device)
        return torch.stack([(labels != IGNORED_LABEL).sum(), pairs])


class TransformerEncoderForReplacedTokenDetection(LabelModel):
    """ELECTRA's discriminator: was this token replaced? Clark et al. 2020, section 2."""

    config_class = EncoderConfig
    output_class = MaskedOutput

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(config)
        self.model = TransformerEncoder(config, has_pooler=False)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.activation = ACTIVATIONS[config.head.transform or "gelu"]
        self.output = nn.Linear(config.hidden_size, 1)
        self.post_init()

    def scores(self, output: Any, mask: Tensor | None) -> Tensor:
        """Logits (B, T), above 0 for replaced; ``labels`` are (B, T) of 0 and 1."""
        return self.output(self.activation(self.dense(output.last_hidden_state))).squeeze(-1)

    def loss(self, logits: Tensor, labels: Tensor, mask: Tensor | None) -> Tensor:
        """Binary cross-entropy in nats per token."""
        weights = None if mask is None else (mask != 0).to(logits.dtype)
        tokens = logits.numel() if weights is None else weights.sum()
        summed = F.binary_cross_entropy_with_logits(
            logits, labels.to(logits.dtype), weight=weights, reduction="sum"
        )
        return summed / tokens
