"""What a decoder without self-attention keeps from token to token."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

__all__ = ["DecoderStates"]


@dataclass
class DecoderStates:
    """A decoder's cache, whose size does not grow with the text.

    ``layers``: tensors (B, …) of each layer; ``rest``: what is of no layer, such as what the source is attended by.
    ``generate`` gives it back with the next token, in the order of the beams that go on.
    """

    seen: int
    layers: list[tuple[Tensor, ...]]
    rest: tuple[Tensor, ...] = ()

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Tokens read, padding among them."""
        return self.seen

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Go on from these rows."""
        self.layers = [tuple(tensor.index_select(0, beam_idx) for tensor in layer) for layer in self.layers]
        self.rest = tuple(tensor.index_select(0, beam_idx) for tensor in self.rest)
