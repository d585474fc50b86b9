"""Forms of self-attention that cost less than comparing every token with every other one."""

from __future__ import annotations

from workbench.nn.forms.base import EfficientAttention, Layout
from workbench.nn.forms.linformer import LinformerAttention

__all__ = ["FORMS", "EfficientAttention", "Layout", "LinformerAttention"]

# name in the configuration -> class; plain attention is not among them
FORMS: dict[str, type[EfficientAttention]] = {
    "linformer": LinformerAttention,
}
