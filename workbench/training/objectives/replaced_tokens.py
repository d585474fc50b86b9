"""ELECTRA: a small generator fills masked places, and the model learns which tokens were replaced."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers.utils.generic import ModelOutput

from workbench.models.configuration import EncoderConfig
from workbench.models.heads.masked import (
    TransformerEncoderForMaskedLM,
    TransformerEncoderForReplacedTokenDetection,
)
from workbench.training.objectives._draw import IGNORED, Term, token_places, token_term, weighted_loss

__all__ = ["ReplacedTokenOutput", "ReplacedTokens", "generator_config"]

DISCRIMINATOR_WEIGHT = 50.0  # Clark et al. 2020, "ELECTRA", appendix A
GENERATOR_SHARE = 4  # the generator is a quarter as wide; section 3.2 finds a quarter to a half best


@dataclass
class ReplacedTokenOutput(ModelOutput):
    """Total ``loss``; the generator's ``logits`` (B, T, V); ``detected`` (B, T), above 0 for "replaced"."""

    loss: Tensor | None = None
    logits: Tensor | None = None
    detected: Tensor | None = None
    replaced: Tensor | None = None
    auxiliary_loss: Tensor | None = None


def generator_config(config: EncoderConfig) -> EncoderConfig:
    """The same encoder, a quarter as wide; its token vectors are as wide as the discriminator's, to be shared."""
    heads = max(1, config.attention.heads // GENERATOR_SHARE)
    width = max(heads * 2, config.hidden_size // GENERATOR_SHARE // (heads * 2) * heads * 2)
    settings = config.to_dict()
    for name in ("model_type", "architectures", "transformers_version"):
        settings.pop(name, None)
    settings["hidden_size"] = width
    settings["attention"] = replace(config.attention, heads=heads, key_value_heads=None, head_size=None)
    settings["feed_forward"] = replace(
        config.feed_forward, size=max(8, config.feed_forward.size // GENERATOR_SHARE)
    )
    settings["embeddings"] = replace(config.embeddings, size=config.embeddings.size or config.hidden_size)
    # its dense layer leads from the narrow states back to the width of the token vectors
    settings["head"] = replace(config.head, transform=config.head.transform or "gelu")
    return EncoderConfig(**settings)


class ReplacedTokens(nn.Module):
    """Both models as one to train: Clark et al. 2020, section 2. They share the token table (section 3.2).

    A token counts as replaced if it differs from the original one: not where the generator happened to be right.
    Theirs share the positions too, and their generator reads [MASK] at every chosen place, where this one reads what
    :func:`~workbench.training.objectives.masked.hide` puts there.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.discriminator = TransformerEncoderForReplacedTokenDetection(config)
        self.generator = TransformerEncoderForMaskedLM(generator_config(config))
        table: Any = self.discriminator.get_input_embeddings()
        self.generator.set_input_embeddings(table)
        if config.tie_word_embeddings:
            self.generator.head.output.weight = table.weight

    @property
    def device(self) -> torch.device:
        """Where it is."""
        return next(self.parameters()).device

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | None = None,
    ) -> ReplacedTokenOutput:
        """Masked ids (B, T) and ``labels`` (B, T), -100 where nothing was chosen.

        ``num_items_in_batch`` are the places of all batches of a step, as :meth:`scored_counts` gives them.
        """
        if labels is None:
            filled = self.generator(input_ids=input_ids, attention_mask=attention_mask)
            return ReplacedTokenOutput(logits=filled.logits)
        output, terms = self._output_and_terms(input_ids, labels, attention_mask)
        output.loss = weighted_loss(terms, num_items_in_batch, output.auxiliary_loss)
        return output

    def scored_counts(
        self, input_ids: Tensor, labels: Tensor, attention_mask: Tensor | None = None
    ) -> Tensor:
        """Scored places of each term of a batch, (term,): tokens, and masked ones."""
        return torch.stack([token_places(input_ids, attention_mask).sum(), (labels != IGNORED).sum()])

    def terms(self, input_ids: Tensor, labels: Tensor, attention_mask: Tensor | None = None) -> list[Term]:
        """What the discriminator makes of every place, and what the generator puts into masked ones."""
        return self._output_and_terms(input_ids, labels, attention_mask)[1]

    def _output_and_terms(
        self, input_ids: Tensor, labels: Tensor, attention_mask: Tensor | None
    ) -> tuple[ReplacedTokenOutput, list[Term]]:
        filled = self.generator(input_ids=input_ids, attention_mask=attention_mask)
        logits = filled.logits
        chosen = labels != IGNORED
        drawn = torch.distributions.Categorical(logits=logits.detach().float()[chosen]).sample()
        ids = input_ids.masked_scatter(chosen, drawn)
        replaced = ids != torch.where(chosen, labels, input_ids)
        found = self.discriminator(input_ids=ids, attention_mask=attention_mask)
        detected = found.logits
        losses = F.binary_cross_entropy_with_logits(detected.float(), replaced.float(), reduction="none")
        places = token_places(input_ids, attention_mask)
        detection = Term("detection", DISCRIMINATOR_WEIGHT, losses, places, (detected > 0) == replaced)
        extra = [loss for loss in (filled.auxiliary_loss, found.auxiliary_loss) if loss is not None]
        auxiliary = torch.stack(extra).sum() if extra else None
        output = ReplacedTokenOutput(
            logits=logits, detected=detected, replaced=replaced, auxiliary_loss=auxiliary
        )
        return output, [detection, token_term(logits, labels, name="generator")]

    def save_pretrained(self, folder: str | Path) -> None:
        """The discriminator, which is the model that is kept, and the generator in a folder inside."""
        self.discriminator.save_pretrained(folder)
        self.generator.save_pretrained(Path(folder) / "generator")
