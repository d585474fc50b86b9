"""Embeddings, layers and the final norm: what encoders and decoders have in common."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from workbench.models.assembly import make_embeddings, make_layer, make_norm, make_positions
from workbench.models.configuration import TransformerConfig
from workbench.models.outputs import StackOutput, kept
from workbench.nn import AttentionContext, balance_loss
from workbench.nn.block import BlockOutput
from workbench.nn.universal import HaltingState

__all__ = ["LayerStack", "Passed"]


class Passed(NamedTuple):
    """The embeddings and what each layer gave; the states (B, T, D) that are normed last; how positions halted."""

    blocks: list[BlockOutput]
    hidden: Tensor
    halting: HaltingState | None = None


class LayerStack(nn.Module):
    """Layers one after the other; fewer modules than layers where they share weights (ALBERT)."""

    def __init__(self, config: TransformerConfig, *, is_causal: bool, has_source: bool = False) -> None:
        super().__init__()
        self.kinds = config.layer_types if is_causal else config.encoder_layer_types
        count = len(self.kinds)
        groups = config.depth.groups or count
        self.config = config
        self.is_causal = is_causal
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
        source_context: AttentionContext | None = None,
        *,
        positions: Tensor,
        keep_hidden: bool | None = None,
        keep_attentions: bool | None = None,
    ) -> StackOutput:
        """Embedded tokens (B, T, D) at ``positions`` (1 or B, T) through all layers; ``contexts`` by kind of layer.

        What is kept, by default as configured, is one tensor per layer: the embeddings and the output of each
        layer, the last one normed, (B, T, D); and the weights (B, H, T, K) of layers whose function gave any.
        """
        passed = self.run(hidden, contexts, source_context, positions)
        hidden = self.final_norm(passed.hidden)
        states, weights, source_weights, routings = zip(*passed.blocks, strict=True)
        keep_hidden, keep_attentions = kept(self.config, keep_hidden, keep_attentions)
        return StackOutput(
            last_hidden_state=hidden,
            hidden_states=(*states[:-1], hidden) if keep_hidden else None,
            attentions=_present(weights, self.config) if keep_attentions else None,
            cross_attentions=_present(source_weights) if keep_attentions and source_context else None,
            auxiliary_loss=self._auxiliary_loss(passed, contexts) if self.training else None,
            routings=tuple(routing for routing in routings if routing is not None) or None,
            steps=None if passed.halting is None else passed.halting.steps,
        )

    def run(
        self,
        hidden: Tensor,
        contexts: dict[str, AttentionContext],
        source_context: AttentionContext | None,
        positions: Tensor,
    ) -> Passed:
        """Through all layers; arguments as in :meth:`forward`."""
        blocks = [BlockOutput(hidden)]
        for index, (kind, module) in enumerate(zip(self.kinds, self.module_of_layer, strict=True)):
            layer = self.layers[module]
            if len(self.layers) < len(self.kinds):
                self.number(layer, index)
            # a pass that is taken up in the middle gives plain tuples
            blocks.append(BlockOutput(*layer(blocks[-1].hidden, contexts[kind], source_context)))
        return Passed(blocks, blocks[-1].hidden)

    def number(self, layer: Any, index: int) -> None:
        """Name a shared module as another layer each time."""
        layer.attention.layer_idx = index

    def _auxiliary_loss(self, passed: Passed, contexts: dict[str, AttentionContext]) -> Tensor | None:
        tokens = contexts[self.kinds[0]].tokens
        losses = self.auxiliary_losses(
            passed, None if tokens is None else tokens[:, -passed.hidden.shape[1] :]
        )
        return torch.stack(losses).sum() if losses else None

    def auxiliary_losses(self, passed: Passed, tokens: Tensor | None) -> list[Tensor]:
        """What is added to the loss in training: the experts' load-balance losses."""
        routings = [block.routing for block in passed.blocks if block.routing is not None]
        return [self.config.feed_forward.balance * balance_loss(routing) for routing in routings]

    def place(self, vectors: Tensor, seen: int | Tensor) -> Tensor:
        """Positions (1, T) of ``vectors`` (B, T, E) after ``seen`` tokens; ``ConfigError`` if there are too many."""
        length = vectors.shape[1]
        if isinstance(seen, int):
            self.config.check_length(seen + length)
        return (torch.arange(length, device=vectors.device) + seen)[None]


def _present(
    weights: tuple[Tensor | None, ...], config: TransformerConfig | None = None
) -> tuple[Tensor, ...]:
    """The weights that were returned; with the configuration given, a warning where none were."""
    found = tuple(w for w in weights if w is not None)
    if config is not None and not found:
        warnings.warn(
            f"attention {config._attn_implementation!r} tells no weights: none are kept; call "
            "model.set_attn_implementation('eager') first, or workbench.trace(model, texts)",
            stacklevel=2,
        )
    return found
