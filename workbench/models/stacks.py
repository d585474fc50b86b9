"""Which kind of stack a configuration asks for."""

from __future__ import annotations

from workbench.models.configuration import TransformerConfig
from workbench.models.stack import LayerStack
from workbench.models.universal import UniversalStack

__all__ = ["make_stack"]


def make_stack(config: TransformerConfig, *, is_causal: bool, has_source: bool = False) -> LayerStack:
    """Layers one after the other, or steps of one."""
    kind = UniversalStack if config.depth.has_steps else LayerStack
    return kind(config, is_causal=is_causal, has_source=has_source)
