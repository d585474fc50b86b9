"""What a forward pass did: traces, streaming observers of attention, and interventions.

The module can itself be called: ``workbench.trace(model, texts, record={"attention"})`` is :func:`trace`.
"""

from __future__ import annotations

from workbench.rooms import callable_room
from workbench.trace._trace import Record, Target, TextTrace, Trace, load_trace, save_trace
from workbench.trace.attention_hook import AttentionCall, Stack, attention_implementation
from workbench.trace.capture import capture
from workbench.trace.captured import Capture, load_capture
from workbench.trace.encoding import Text
from workbench.trace.interventions import (
    Edit,
    Site,
    ablate_heads,
    intervene,
    mean_head_outputs,
    replace,
    scale,
)
from workbench.trace.observing import AttentionObserver, observe_attention
from workbench.trace.recording import trace
from workbench.trace.streams import TwoStreams, two_streams
from workbench.trace.structure import Route, Structure, stacks_of, structure_of

__all__ = [
    "AttentionCall",
    "AttentionObserver",
    "Capture",
    "Edit",
    "Record",
    "Route",
    "Site",
    "Stack",
    "Structure",
    "Target",
    "Text",
    "TextTrace",
    "Trace",
    "TwoStreams",
    "ablate_heads",
    "attention_implementation",
    "capture",
    "intervene",
    "load_capture",
    "load_trace",
    "mean_head_outputs",
    "observe_attention",
    "replace",
    "save_trace",
    "scale",
    "stacks_of",
    "structure_of",
    "trace",
    "two_streams",
]

callable_room(__name__, trace)
