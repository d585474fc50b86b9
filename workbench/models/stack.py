"""Embeddings, layers and the final norm: what encoders and decoders have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from workbench.errors import ConfigError
from workbench.models.assembly import make_embeddings, make_layer, make_norm, make_positions
from workbench.models.configuration import TransformerConfig
from workbench.nn import AttentionContext, KeyValueStore

__all__ = ["Stack", "StackOutput", "pick_vectors"]


@dataclass(frozen=True)
class StackOutput:
    """``last`` (B, T, D); the other fields hold one tensor per layer where they were asked for.

    ``hidden``: the embeddings, then the output of each layer, the last one normed; (B, T, D) each.
    ``attentions`` (B, H, T, K) and ``cross_attentions`` (B, H, T, S) lack layers that gave no weights.
    """

    last: Tensor
    hidden: tuple[Tensor, ...] | None
    attentions: tuple[Tensor, ...] | None
    cross_attentions: tuple[Tensor, ...] | None


class Stack(nn.Module):
    """Layers one after the other; fewer modules than layers where they share weights (ALBERT)."""

    def __init__(self, config: TransformerConfig, *, is_causal: bool, has_source: bool = False) -> None:
        super().__init__()
        self.kinds = config.layer_types if is_causal else config.encoder_layer_types
        count = len(self.kinds)
        groups = config.depth.groups or count
        self.module_of_layer = [layer * groups // count for layer in range(count)]
        self.embeddings = make_embeddings(config, make_positions(config, two_sided=not is_causal))
        self.layers = nn.ModuleList(
            make_layer(config, i, is_causal=is_causal, has_source=has_source) for i in range(groups)
        )
        self.final_norm = make_norm(config, is_wanted=config.norm.final)

    def forward(
        self,
        hidden: Tensor,
        contexts: dict[str, AttentionContext],
        *,
        source: Tensor | None = None,
        source_context: AttentionContext | None = None,
        cache: KeyValueStore | None = None,
        source_cache: KeyValueStore | None = None,
        keep_hidden: bool = False,
        keep_attentions: bool = False,
    ) -> StackOutput:
        """Embedded tokens (B, T, D) through all layers."""
        states, attentions, cross_attentions = [hidden], [], []
        for index, (kind, module) in enumerate(zip(self.kinds, self.module_of_layer, strict=True)):
            layer: Any = self.layers[module]
            if len(self.layers) < len(self.kinds):
                layer.attention.layer_idx = index  # a shared module is another layer each time
            hidden, weights, cross_weights = layer(
                hidden,
                source,
                context=contexts[kind],
                source_context=source_context,
                cache=cache,
                source_cache=source_cache,
            )
            states.append(hidden)
            attentions.append(weights)
            cross_attentions.append(cross_weights)
        hidden = self.final_norm(hidden)
        return StackOutput(
            last=hidden,
            hidden=(*states[:-1], hidden) if keep_hidden else None,
            attentions=_present(attentions) if keep_attentions else None,
            cross_attentions=_present(cross_attentions) if keep_attentions and source is not None else None,
        )

    def place(self, length: int, seen: int | Tensor, device: torch.device) -> Tensor:
        """Positions (1, T) of ``length`` tokens after ``seen`` ones."""
        return (torch.arange(length, device=device) + seen)[None]


def pick_vectors(stack: Stack, ids: Tensor | None, vectors: Tensor | None) -> Tensor:
    """Token vectors (B, T, E), looked up unless the caller gives them; exactly one must be given."""
    if vectors is not None and ids is None:
        return vectors
    if vectors is None and ids is not None:
        return stack.embeddings.look_up(ids)
    raise ConfigError("give exactly one of input_ids and inputs_embeds; allowed: one, and the other none")


def _present(weights: list[Tensor | None]) -> tuple[Tensor, ...]:
    return tuple(w for w in weights if w is not None)
