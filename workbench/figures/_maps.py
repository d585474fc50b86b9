"""Attention in any of the forms that people hold it in, as one checked record per kind of attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from workbench.errors import ConfigError, NumericsError, TraceError
from workbench.figures._tokens import check_length, shown_tokens, sink_positions
from workbench.shapes import Array, AttentionArray

__all__ = ["AttentionMap", "Stack", "TokenAxis", "Words", "as_stack", "chosen", "position_of"]

Stack: TypeAlias = Any
"""Hugging Face's tuple of (1, head, query, key) per layer, or one (layer, head, query, key) array."""

Words: TypeAlias = Sequence[int | None]
"""Word number of each token, ``None`` for tokens outside words: what ``BatchEncoding.word_ids`` returns."""


@dataclass(frozen=True, kw_only=True)
class TokenAxis:
    """Tokens along one axis: ``shown`` text, the word ``groups`` they belong to, and ``sinks`` (positions)."""

    shown: tuple[str, ...]
    groups: tuple[int, ...] | None
    group_names: tuple[str, ...]
    sinks: tuple[int, ...]

    @classmethod
    def build(
        cls, tokens: Sequence[str], words: Words | None, prettify: bool, first_is_sink: bool
    ) -> TokenAxis:
        """Prepare tokens for display; ``words`` numbers their words, as in ``BatchEncoding.word_ids``."""
        shown = shown_tokens(tokens, prettify)
        groups, names = (None, ()) if words is None else _group(shown, words)
        return cls(shown=shown, groups=groups, group_names=names, sinks=sink_positions(tokens, first_is_sink))


@dataclass(frozen=True, kw_only=True)
class AttentionMap:
    """Weights of one kind of attention (``self``, ``encoder``, ``decoder``, ``cross``) with its tokens.

    ``layers`` and ``heads`` are the numbers to show for the first two axes of ``weights``; ``split`` is
    where sentence B starts.
    """

    name: str
    weights: AttentionArray
    layers: tuple[int, ...]
    heads: tuple[int, ...]
    queries: TokenAxis
    keys: TokenAxis
    split: int | None = None

    def __post_init__(self) -> None:
        found = (len(self.queries.shown), len(self.keys.shown))
        if self.weights.shape[2:] != found:
            raise ConfigError(
                f"{self.name} attention is {self.weights.shape[2]} x {self.weights.shape[3]} (query x key) but "
                f"there are {found[0]} and {found[1]} tokens; pass the tokens of the same pass, padding removed"
            )
        if self.split is not None and not 0 < self.split < found[0]:
            raise ConfigError(f"sentence_b_start={self.split} must lie between 1 and {found[0] - 1}")
        low, high = float(self.weights.min()), float(self.weights.max())
        if not np.isfinite([low, high]).all():
            raise NumericsError(f"{self.name} attention has NaN or infinite weights; run `workbench doctor`")
        if low < 0 or high > 1.001:
            raise TraceError(
                f"{self.name} attention spans {low:.4g} to {high:.4g} but weights lie in 0..1; "
                "draw other values with heat_map"
            )


def as_stack(
    values: Stack, what: str, include_layers: Sequence[int] | None = None
) -> tuple[Array, tuple[int, ...]]:
    """One float32 (layer, head, query, key) array and its layer numbers; only ``include_layers`` are copied.

    Raises:
        TraceError: a chosen layer is ``None``: the model did not return it.
        ConfigError: wrong number of axes, more than one text, layers that differ in shape, or no layer.
    """
    count = len(values)
    layers = chosen(include_layers, count, "include_layers")
    if not layers:
        raise ConfigError(f"{what}: no layers; pass attention of at least one layer")
    arrays = [_one_layer(values[layer], layer, what) for layer in layers]
    shapes = {array.shape for array in arrays}
    if len(shapes) > 1:
        raise ConfigError(
            f"{what}: layers differ in shape, {sorted(shapes)}; show equal ones with include_layers="
        )
    if 0 in arrays[0].shape:
        raise ConfigError(f"{what}: shape {arrays[0].shape} of a layer is empty; give at least one token")
    check_length(max(arrays[0].shape[1:]), what)
    return np.stack(arrays), layers


def chosen(numbers: Sequence[int] | None, count: int, what: str) -> tuple[int, ...]:
    """``numbers`` checked against ``range(count)``; all of them for ``None``."""
    if numbers is None:
        return tuple(range(count))
    for number in numbers:
        if not 0 <= number < count:
            raise TraceError(f"{what}: {number} is out of range; the model has 0 to {count - 1}")
    return tuple(int(number) for number in numbers)


def position_of(number: int, shown: tuple[int, ...], what: str) -> int:
    """Where ``number`` stands among those shown.

    Raises:
        TraceError: it is not shown; the message lists what is.
    """
    if number not in shown:
        span = f"{shown[0]} to {shown[-1]}" if shown == tuple(range(shown[0], shown[-1] + 1)) else str(shown)
        raise TraceError(f"{what} {number} is not shown; choose from {span}")
    return shown.index(number)


def _one_layer(layer: Any, number: int, what: str) -> Array:
    if layer is None:
        raise TraceError(
            f"{what}: layer {number} is None; load the model with attn_implementation='eager', "
            "or leave the layer out with include_layers="
        )
    if hasattr(layer, "detach"):  # a torch tensor: float() first, NumPy has no bfloat16
        layer = layer.detach().cpu().float()
    array = np.asarray(layer, dtype=np.float32)
    if array.ndim == 4 and array.shape[0] == 1:
        array = array[0]
    if array.ndim != 3:
        raise ConfigError(
            f"{what}: layer {number} has shape {array.shape}; expected (head, query, key), or "
            "(1, head, query, key): one text at a time, attention[layer][text : text + 1]"
        )
    return array


def _group(shown: Sequence[str], words: Words) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Group numbers per token, counted along the text, and each group's name; word-less tokens stand alone."""
    if len(words) != len(shown):
        raise ConfigError(f"words= has {len(words)} entries for {len(shown)} tokens; give one per token")
    groups: list[int] = []
    names: list[str] = []
    for i, (text, word) in enumerate(zip(shown, words, strict=True)):
        if i and word is not None and word == words[i - 1]:
            names[-1] += text.removeprefix("##")
        else:
            names.append(text)
        groups.append(len(names) - 1)
    return tuple(groups), tuple(names)
