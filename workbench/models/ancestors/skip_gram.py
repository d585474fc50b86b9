"""Skip-gram with negative sampling: vectors of words, learned by telling their neighbours from drawn words.

Mikolov et al. 2013, "Distributed Representations of Words and Phrases and their Compositionality", section 2.2.
Axes: B text or row, T token, P pair of a word and a neighbour, K drawn words, D width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import initialization as init
from transformers.modeling_outputs import BaseModelOutput
from transformers.utils.generic import ModelOutput

from workbench.models.ancestors.base import AncestorPreTrainedModel, TokenTable
from workbench.models.base import tuple_on_request
from workbench.models.built_in import BuiltInConfig
from workbench.models.heads.base import IGNORED_LABEL
from workbench.models.outputs import kept, pick_vectors

__all__ = ["PairOutput", "SkipGramConfig", "SkipGramModel", "SkipGramPairs"]


class SkipGramConfig(BuiltInConfig):
    """A table of vectors of width ``hidden_size``, and a second one for words as neighbours, kept beside it."""

    model_type = "workbench-skip-gram"
    tie_word_embeddings: bool = False

    no_scores: ClassVar[str] = (
        "it gives each word a vector, the same wherever it stands, and no text a probability"
    )

    @property
    def num_hidden_layers(self) -> int:
        """None above the vectors."""
        return 0

    def diagram(self) -> str:
        """Two tables."""
        return "\n".join(
            (
                f"vectors of words (batch, tokens, {self.hidden_size}): what is kept",
                "  · a vector of the neighbour, and of each drawn word",
                "  sigmoid: neighbour or drawn?",
            )
        )


class SkipGramModel(TokenTable, AncestorPreTrainedModel):
    """The vectors as an encoder without layers: each token's own vector, whatever stands around it."""

    config_class = SkipGramConfig
    config: SkipGramConfig

    def __init__(self, config: SkipGramConfig) -> None:
        super().__init__(config)
        self.tokens = nn.Embedding(config.vocab_size, config.hidden_size)
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
        """Ids (B, T) to vectors (B, T, D), the only hidden states."""
        vectors = pick_vectors(self.tokens, input_ids, inputs_embeds)
        keep_hidden, _ = kept(self.config, output_hidden_states, output_attentions)
        return BaseModelOutput(last_hidden_state=vectors, hidden_states=(vectors,) if keep_hidden else None)


@dataclass
class PairOutput(ModelOutput):
    """``losses`` (B, P) in nats of each pair; ``logits`` (B, P, 1 + K), above 0 for "neighbour", which is the first."""

    loss: Tensor | None = None
    losses: Tensor | None = None
    logits: Tensor | None = None


class SkipGramPairs(AncestorPreTrainedModel):
    """Words as ``model`` has them, and as neighbours: log σ(v'_o · v_c) + Σ log σ(-v'_k · v_c), equation 4.

    Vectors of neighbours begin at zero, those of words within half of 1/D around it, as in the authors' program.
    """

    config_class = SkipGramConfig
    config: SkipGramConfig

    def __init__(self, config: SkipGramConfig) -> None:
        super().__init__(config)
        self.model = SkipGramModel(config)
        self.neighbours = nn.Embedding(config.vocab_size, config.hidden_size)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        if module is self.neighbours:
            init.zeros_(module.weight)
        elif isinstance(module, nn.Embedding):
            bound = 0.5 / self.config.hidden_size
            init.uniform_(module.weight, -bound, bound)

    @tuple_on_request
    def forward(
        self,
        input_ids: Tensor,
        labels: Tensor,
        negative_ids: Tensor,
        num_items_in_batch: Tensor | int | None = None,
    ) -> PairOutput:
        """Words (B, P), their neighbours ``labels`` (B, P), -100 at padding, and drawn words (B, P, K).

        A drawn word that is the neighbour itself counts for nothing. The loss is the mean over pairs, or their sum
        over ``num_items_in_batch``.
        """
        is_pair = labels != IGNORED_LABEL
        others = torch.cat((labels.clamp(min=0)[..., None], negative_ids), dim=-1)  # (B, P, 1 + K)
        words = self.model(input_ids).last_hidden_state
        logits = (self.neighbours(others) @ words[..., None]).squeeze(-1)
        drawn_well = (negative_ids != labels[..., None]).to(logits.dtype)
        negatives = (F.logsigmoid(-logits[..., 1:]) * drawn_well).sum(-1)
        losses = -(F.logsigmoid(logits[..., 0]) + negatives) * is_pair
        count = is_pair.sum() if num_items_in_batch is None else num_items_in_batch
        return PairOutput(loss=losses.sum() / count, losses=losses, logits=logits)
