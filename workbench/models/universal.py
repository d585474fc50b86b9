"""A stack whose layers are steps of one recurrence, and may halt: the Universal Transformer."""

from __future__ import annotations

from torch import Tensor

from workbench.models.configuration import TransformerConfig
from workbench.models.stack import LayerStack, Passed
from workbench.nn import AttentionContext
from workbench.nn.block import BlockOutput
from workbench.nn.universal import Halting, HaltingState, add_step, ponder_cost

__all__ = ["UniversalStack"]


class UniversalStack(LayerStack):
    """One module as every layer, given the step's number; Dehghani et al. 2019, "Universal Transformers", section 2.

    With ``depth.halting`` each position takes as many steps as it needs: see :class:`workbench.nn.universal.Halting`.
    """

    def __init__(self, config: TransformerConfig, *, is_causal: bool, has_source: bool = False) -> None:
        super().__init__(config, is_causal=is_causal, has_source=has_source)
        chosen = config.depth.halting
        self.halting = None if chosen is None else Halting(config.hidden_size, chosen)

    def run(
        self,
        hidden: Tensor,
        contexts: dict[str, AttentionContext],
        source_context: AttentionContext | None,
        positions: Tensor,
    ) -> Passed:
        """All steps; see :meth:`LayerStack.run`."""
        blocks, layer = [BlockOutput(hidden)], self.layers[0]
        state: HaltingState | None = None if self.halting is None else self.halting.start(hidden)
        for step, kind in enumerate(self.kinds):
            self.number(layer, step)
            if self.config.depth.step_encoding:
                hidden = add_step(hidden, step, self.embeddings.positions, positions)
            block = BlockOutput(*layer(hidden, contexts[kind], source_context))
            hidden = block.hidden
            if self.halting is not None and state is not None:
                state = self.halting(state, hidden, step == len(self.kinds) - 1)
                hidden = state.hidden
            blocks.append(block._replace(hidden=hidden))
        return Passed(blocks, hidden if state is None else state.output, state)

    def auxiliary_losses(self, passed: Passed, tokens: Tensor | None) -> list[Tensor]:
        """The ponder cost too, if positions halt."""
        losses = super().auxiliary_losses(passed, tokens)
        if passed.halting is None:
            return losses
        return [*losses, self.config.depth.ponder * ponder_cost(passed.halting, tokens)]
