"""Which kind of stack a configuration asks for."""

from __future__ import annotations

from workbench.models.configuration import TransformerConfig
from workbench.models.funnel import FunnelStack
from workbench.models.stack import LayerStack
from workbench.models.universal import UniversalStack

__all__ = ["make_stack"]


def make_stack(config: TransformerConfig, *, is_causal: bool, has_source: bool = False) -> LayerStack:
    """Layers one after the other, steps of one, or groups of layers with pooling between them."""
    kind: type[LayerStack] = UniversalStack if config.depth.has_steps else LayerStack
    if config.depth.pool_every is not None:
        kind = FunnelStack
    return kind(config, is_causal=is_causal, has_source=has_source)
