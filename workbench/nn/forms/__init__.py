"""Forms of self-attention that cost less than comparing every token with every other one."""

from __future__ import annotations

from workbench.nn.forms.base import EfficientAttention, Layout
from workbench.nn.forms.bigbird import BigBirdAttention
from workbench.nn.forms.convolution import DynamicConvolutionAttention, LightweightConvolutionAttention
from workbench.nn.forms.linformer import LengthProjection, LinformerAttention
from workbench.nn.forms.longformer import LongformerAttention
from workbench.nn.forms.nystromformer import NystromformerAttention
from workbench.nn.forms.performer import PerformerAttention
from workbench.nn.forms.reformer import ReformerAttention
from workbench.nn.forms.synthesizer import (
    DenseSynthesizerAttention,
    FactorisedSynthesizerAttention,
    FixedSynthesizerAttention,
    PerHead,
    RandomSynthesizerAttention,
)

__all__ = [
    "FORMS",
    "BigBirdAttention",
    "DenseSynthesizerAttention",
    "DynamicConvolutionAttention",
    "EfficientAttention",
    "FactorisedSynthesizerAttention",
    "FixedSynthesizerAttention",
    "Layout",
    "LengthProjection",
    "LightweightConvolutionAttention",
    "LinformerAttention",
    "LongformerAttention",
    "NystromformerAttention",
    "PerHead",
    "PerformerAttention",
    "RandomSynthesizerAttention",
    "ReformerAttention",
]

# name in the configuration -> class; plain attention is not among them
FORMS: dict[str, type[EfficientAttention]] = {
    "bigbird": BigBirdAttention,
    "dynamic_conv": DynamicConvolutionAttention,
    "lightweight_conv": LightweightConvolutionAttention,
    "longformer": LongformerAttention,
    "linformer": LinformerAttention,
    "nystromformer": NystromformerAttention,
    "performer": PerformerAttention,
    "reformer": ReformerAttention,
    "synthesizer_dense": DenseSynthesizerAttention,
    "synthesizer_factorised": FactorisedSynthesizerAttention,
    "synthesizer_fixed": FixedSynthesizerAttention,
    "synthesizer_random": RandomSynthesizerAttention,
}
