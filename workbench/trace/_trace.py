"""The frozen record of what a forward pass did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum

from jaxtyping import Float

from workbench.errors import TraceError
from workbench.models import Kind
from workbench.shapes import Array, AttentionArray, HiddenArray
from workbench.text import Alignment
from workbench.trace.attention_hook import Stack

__all__ = ["Record", "TextTrace", "Trace"]


class Record(StrEnum):
    """What a trace can hold."""

    ATTENTION = "attention"
    HIDDEN = "hidden"
    LOGITS = "logits"
    GRADIENTS = "gradients"
    QUERIES_KEYS = "queries_keys"
    MLP = "mlp"


# Field of a TextTrace -> what has to be recorded to fill it.
_RECORDED_BY = {
    "encoder_attention": Record.ATTENTION,
    "decoder_attention": Record.ATTENTION,
    "cross_attention": Record.ATTENTION,
    "hidden": Record.HIDDEN,
    "encoder_hidden": Record.HIDDEN,
    "logits": Record.LOGITS,
    "gradients": Record.GRADIENTS,
    "queries": Record.QUERIES_KEYS,
    "keys": Record.QUERIES_KEYS,
    "values": Record.QUERIES_KEYS,
    "mlp": Record.MLP,
}


@dataclass(frozen=True, eq=False)
class TextTrace:
    """One text of a trace, without padding. An array that was not recorded is ``None``: see :meth:`get`.

    In an encoder-decoder ``alignment`` is of the target, which the main stack reads, and ``source`` of the
    source; elsewhere ``source`` is ``None``. Layer axes follow ``Trace.layers`` of their stack, except that
    ``hidden`` and ``gradients`` always hold all layers and begin with the embeddings; ``hidden[-1]`` is what
    the head reads (after a final norm where there is one). Head axes follow ``Trace.heads``.
    """

    alignment: Alignment
    segment_ids: tuple[int, ...]
    cut: int  # tokens that did not fit into the model
    source: Alignment | None = None
    encoder_attention: AttentionArray | None = None
    decoder_attention: AttentionArray | None = None
    cross_attention: AttentionArray | None = None
    hidden: HiddenArray | None = None
    encoder_hidden: HiddenArray | None = None  # of an encoder-decoder
    logits: Float[Array, "token vocabulary"] | None = None
    gradients: HiddenArray | None = None  # of the target score with respect to ``hidden``
    queries: Float[Array, "layer head token head_width"] | None = None  # of the main stack's self-attention
    keys: Float[Array, "layer key_head token head_width"] | None = None
    values: Float[Array, "layer key_head token head_width"] | None = None
    mlp: HiddenArray | None = None  # what each feed-forward part of the main stack adds

    @property
    def tokens(self) -> tuple[str, ...]:
        """Tokens that the main stack reads."""
        return self.alignment.tokens

    @property
    def nbytes(self) -> int:
        """Size of the arrays in bytes."""
        return sum(array.nbytes for array in self.arrays().values())

    def arrays(self) -> dict[str, Array]:
        """The recorded arrays by field name."""
        return {f.name: value for f in fields(self) if isinstance(value := getattr(self, f.name), Array)}

    def get(self, name: str) -> Array:
        """The array called ``name``; raises :class:`TraceError` that says how to record it."""
        if name not in _RECORDED_BY:
            raise TraceError(f"a trace has no {name!r}; it can have {', '.join(_RECORDED_BY)}")
        value: Array | None = getattr(self, name)
        if value is None:
            needed = _RECORDED_BY[name].value
            raise TraceError(
                f"the trace holds no {name}: record it with trace(model, texts, record={{{needed!r}}}), "
                f"if the model has such a part; recorded are {', '.join(self.arrays()) or 'none'}"
            )
        return value

    @property
    def attention(self) -> AttentionArray:
        """Self-attention of the main stack; raises :class:`TraceError` if it was not recorded."""
        return self.get("encoder_attention" if self.decoder_attention is None else "decoder_attention")


@dataclass(frozen=True, eq=False)
class Trace:
    """What a model did with some texts: a sequence of :class:`TextTrace`, in the order of the texts."""

    model: str
    kind: Kind
    main: Stack
    texts: tuple[TextTrace, ...]
    recorded: frozenset[Record]
    layers: Mapping[Stack, tuple[int, ...]]  # layer numbers along the layer axis of each stack
    heads: Mapping[Stack, tuple[int, ...]]

    def __len__(self) -> int:
        return len(self.texts)

    def __iter__(self) -> Iterator[TextTrace]:
        return iter(self.texts)

    def __getitem__(self, index: int) -> TextTrace:
        return self.texts[index]

    def __repr__(self) -> str:
        held = ", ".join(sorted(self.recorded))
        return f"<Trace of {self.model}: {len(self)} texts, {held}, {self.nbytes / 2**20:.1f} MiB>"

    @property
    def nbytes(self) -> int:
        """Size of all arrays in bytes; what :func:`save_trace` writes is some kilobytes more."""
        return sum(text.nbytes for text in self.texts)

    @property
    def cut(self) -> int:
        """Tokens that did not fit into the model, over all texts."""
        return sum(text.cut for text in self.texts)
