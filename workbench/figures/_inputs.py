"""The arguments that attention views share (BertViz's, and ours) turned into checked attention maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from workbench.errors import ConfigError
from workbench.figures._maps import AttentionMap, Stack, TokenAxis, Words, as_stack, chosen
from workbench.figures._page import check_choice, edges_kept, strongest_keys

__all__ = ["AttentionInputs", "as_shown", "attention_frame", "check_html_action"]


def check_html_action(html_action: str) -> None:
    """BertViz's ``html_action``: both of its values return the view, which shows itself."""
    check_choice(html_action, ("view", "return"), "html_action")


@dataclass(frozen=True, kw_only=True)
class AttentionInputs:
    """One text's ``attention`` with ``tokens``, or an encoder-decoder's up to three kinds with both token lists."""

    attention: Stack | None = None
    tokens: Sequence[str] | None = None
    encoder_attention: Stack | None = None
    decoder_attention: Stack | None = None
    cross_attention: Stack | None = None
    encoder_tokens: Sequence[str] | None = None
    decoder_tokens: Sequence[str] | None = None
    words: Words | None = None
    encoder_words: Words | None = None
    decoder_words: Words | None = None
    sentence_b_start: int | None = None
    prettify_tokens: bool = True
    include_layers: Sequence[int] | None = None
    include_heads: Sequence[int] | None = None
    signed: bool = False

    def maps(self) -> tuple[AttentionMap, ...]:
        """One map per kind of attention given, in the order encoder, decoder, cross.

        Raises:
            ConfigError: nothing to show, both forms at once, tokens missing, or shapes that do not fit.
            TraceError: a layer or head out of range, or a layer without attention.
        """
        several = (self.encoder_attention, self.decoder_attention, self.cross_attention)
        if self.attention is not None:
            if any(stack is not None for stack in several):
                raise ConfigError("give attention= or encoder_/decoder_/cross_attention=, not both")
            axis = self._axis("tokens", self.tokens, self.words, True)
            return (self._map("self", self.attention, axis, axis, self.sentence_b_start),)
        if all(stack is None for stack in several):
            raise ConfigError(
                "nothing to show: give attention= with tokens=, or encoder_attention=, decoder_attention=, "
                "cross_attention= with encoder_tokens= and decoder_tokens="
            )
        return tuple(self._encoder_decoder_maps())

    def _encoder_decoder_maps(self) -> list[AttentionMap]:
        maps = []
        if self.encoder_attention is not None:
            source = self._axis("encoder_tokens", self.encoder_tokens, self.encoder_words, True)
            maps.append(self._map("encoder", self.encoder_attention, source, source, None))
        if self.decoder_attention is not None:
            target = self._axis("decoder_tokens", self.decoder_tokens, self.decoder_words, True)
            maps.append(self._map("decoder", self.decoder_attention, target, target, None))
        if self.cross_attention is not None:
            # the first source token is an ordinary word: only separators soak up cross-attention
            source = self._axis("encoder_tokens", self.encoder_tokens, self.encoder_words, False)
            target = self._axis("decoder_tokens", self.decoder_tokens, self.decoder_words, False)
            maps.append(self._map("cross", self.cross_attention, target, source, None))
        return maps

    def _axis(self, name: str, tokens: Sequence[str] | None, words: Words | None, first: bool) -> TokenAxis:
        if tokens is None or len(tokens) == 0:
            raise ConfigError(f"{name}= is {tokens!r}; give one string per position of the attention")
        return TokenAxis.build(tokens, words, self.prettify_tokens, first)

    def _map(
        self, name: str, stack: Stack, queries: TokenAxis, keys: TokenAxis, split: int | None
    ) -> AttentionMap:
        what = "attention" if name == "self" else f"{name}_attention"
        weights, layers = as_stack(stack, what, self.include_layers)
        heads = chosen(self.include_heads, weights.shape[1], "include_heads")
        if self.include_heads is not None:
            weights = weights[:, list(heads)]
        return AttentionMap(
            name=name,
            weights=weights,
            layers=layers,
            heads=heads,
            queries=queries,
            keys=keys,
            split=split,
            signed=self.signed,
        )


def as_shown(attention: AttentionMap, merge_words: bool, hide_sinks: bool) -> AttentionMap:
    """The map with sinks' columns set to zero (nothing is renormalised) and word pieces joined.

    Joining sums over the pieces attended to and averages over the pieces attending (Clark et al., 2019,
    "What does BERT look at?", section 4.1).
    """
    if hide_sinks:
        weights = attention.weights.copy()
        weights[..., list(attention.keys.sinks)] = 0.0
        attention = replace(attention, weights=weights)
    queries, keys = attention.queries, attention.keys
    if not merge_words or queries.groups is None or keys.groups is None:
        return attention
    query_starts, key_starts = (_starts(axis.groups) for axis in (queries, keys) if axis.groups is not None)
    pieces = np.diff([*query_starts, len(queries.groups)])
    sums = np.add.reduceat(attention.weights, key_starts, axis=-1)
    means = np.add.reduceat(sums, query_starts, axis=-2) / pieces[:, None]
    split = None if attention.split is None else queries.groups[attention.split]
    return replace(
        attention, weights=means, queries=_joined(queries), keys=_joined(keys), split=split or None
    )


def attention_frame(maps: Sequence[AttentionMap]) -> pd.DataFrame:
    """One row per edge: attention, layer, head, query, query_token, key, key_token, weight.

    Of a map too large to keep whole, only each query's strongest keys, as in the page.
    """
    return pd.concat([_one_frame(attention) for attention in maps], ignore_index=True)


def _one_frame(attention: AttentionMap) -> pd.DataFrame:
    weights = attention.weights
    kept = edges_kept(weights)
    if kept is None:
        layer, head, query, key = (axis.ravel() for axis in np.indices(weights.shape))
        values = weights.ravel()
    else:
        strongest = strongest_keys(weights, kept)
        layer, head, query, _ = (axis.ravel() for axis in np.indices(strongest.weight.shape))
        key, values = strongest.index.ravel(), strongest.weight.ravel()
    return pd.DataFrame(
        {
            "attention": attention.name,
            "layer": np.take(attention.layers, layer),
            "head": np.take(attention.heads, head),
            "query": query,
            "query_token": np.array(attention.queries.shown, dtype=object)[query],
            "key": key,
            "key_token": np.array(attention.keys.shown, dtype=object)[key],
            "weight": values,
        }
    )


def _starts(groups: Sequence[int]) -> list[int]:
    return [i for i, group in enumerate(groups) if i == 0 or group != groups[i - 1]]


def _joined(axis: TokenAxis) -> TokenAxis:
    return TokenAxis(shown=axis.group_names, groups=None, group_names=(), sinks=())
