"""The arguments that attention views share (BertViz's, and ours) turned into checked attention maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.errors import ConfigError
from workbench.figures._maps import AttentionMap, Stack, TokenAxis, Words, as_stack, chosen
from workbench.figures._page import check_choice

__all__ = ["AttentionInputs", "check_html_action"]


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
            name=name, weights=weights, layers=layers, heads=heads, queries=queries, keys=keys, split=split
        )
