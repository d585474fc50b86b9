"""What a forward pass did: traces, streaming observers of attention, and interventions."""

from __future__ import annotations

from workbench.trace._seam import AttentionCall, Stack
from workbench.trace._structure import Route, Structure, structure_of
from workbench.trace._targets import Target
from workbench.trace._trace import Record, TextTrace, Trace
from workbench.trace.observing import AttentionObserver, observe_attention
from workbench.trace.recording import trace

__all__ = [
    "AttentionCall",
    "AttentionObserver",
    "Record",
    "Route",
    "Stack",
    "Structure",
    "Target",
    "TextTrace",
    "Trace",
    "observe_attention",
    "structure_of",
    "trace",
]
