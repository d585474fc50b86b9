"""The convolutional encoder-decoder: Gehring et al. 2017, "Convolutional Sequence to Sequence Learning".

Axes: B text, T target token, S source token, E width of token vectors, D width of the convolutions. Matrices are not
weight-normalised: that is how the authors train them, and computes nothing else.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from transformers import initialization as init
from transformers.masking_utils import create_bidirectional_mask
from transformers.modeling_outputs import BaseModelOutput, BaseModelOutputWithPastAndCrossAttentions
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from workbench.errors import ConfigError
from workbench.models.ancestors.base import AncestorPreTrainedModel, LinearHead, TokenTable, new_tokens
from workbench.models.ancestors.convolutional_configuration import ConvolutionalConfig
from workbench.models.ancestors.states import DecoderStates
from workbench.models.base import tuple_on_request
from workbench.models.encoder_decoder import EncoderDecoderBody
from workbench.models.heads.generation import ConditionalGeneration
from workbench.models.outputs import kept, pick_vectors
from workbench.nn.attention_functions import eager_attention
from workbench.nn.convolutional import (
    ConvolutionBlock,
    GatedConvolution,
    MultiStepAttention,
    SourceContext,
    joined,
)

__all__ = [
    "ConvolutionalDecoder",
    "ConvolutionalEncoder",
    "ConvolutionalEncoderDecoder",
    "ConvolutionalEncoderDecoderForConditionalGeneration",
]


class ConvolutionalPreTrainedModel(AncestorPreTrainedModel):
    """Initial weights of section 3.5 and appendix A: outputs of a layer vary as its inputs do."""

    config: ConvolutionalConfig
    _supports_sdpa = True
    _supports_attention_backend = True

    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, nn.Linear):
            init.normal_(module.weight, mean=0.0, std=math.sqrt(1 / module.in_features))
        if isinstance(module, nn.Conv1d):  # a gate halves, and dropout leaves 1 - p
            inputs = module.in_channels * module.kernel_size[0]
            init.normal_(module.weight, mean=0.0, std=math.sqrt(4 * (1 - self.config.dropout) / inputs))


class ConvolutionStack(TokenTable, ConvolutionalPreTrainedModel):
    """Token vectors with learned positions, convolutions, and what maps between their widths."""

    config_class = ConvolutionalConfig

    def __init__(self, config: ConvolutionalConfig, layers: int, *, is_decoder: bool) -> None:
        super().__init__(config)
        size, width = config.token_size, config.hidden_size
        self.tokens = nn.Embedding(config.vocab_size, size)
        self.positions = nn.Embedding(config.positions.max_length, size)
        self.dropout = nn.Dropout(config.dropout)
        self.enter = nn.Linear(size, width)
        self.layers = nn.ModuleList(
            ConvolutionBlock(
                GatedConvolution(
                    width=width,
                    kernel=config.convolution.kernel,
                    is_causal=is_decoder,
                    dropout=config.dropout,
                ),
                MultiStepAttention(width=width, tokens=size, layer_idx=layer) if is_decoder else None,
            )
            for layer in range(layers)
        )
        self.leave = nn.Linear(width, size)

    def embed(self, vectors: Tensor, mask: Tensor | None, seen: int = 0) -> Tensor:
        """Token vectors (B, T, E) with the position of each, after ``seen`` tokens; padding has no place of its own."""
        length = vectors.shape[1]
        self.config.check_length(seen + length)
        if mask is None:
            places = (torch.arange(length, device=vectors.device) + seen)[None]
        else:
            places = (mask.ne(0).long().cumsum(-1) - 1).clamp(min=0)[:, -length:]
        return self.dropout(vectors + self.positions(places))


class ConvolutionalEncoder(ConvolutionStack):
    """Convolutions to both sides. Gives keys and values of the decoder's attention side by side, (B, S, 2 E)."""

    def __init__(self, config: ConvolutionalConfig) -> None:
        super().__init__(config, config.depth.layers, is_decoder=False)
        self.post_init()

    @tuple_on_request
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
    ) -> BaseModelOutput:
        """Ids (B, S) to the output z of the last layer, which are keys, and z with the token vectors, the values.

        Hidden states are the token vectors with positions (B, S, E), the output of each layer (B, S, D), and z (B, S,
        E) in the place of the last. The mask is nonzero at tokens.
        """
        vectors = pick_vectors(self.tokens, input_ids, inputs_embeds)
        is_token = new_tokens(attention_mask, vectors)
        embedded = self.embed(vectors, attention_mask)
        states = [self.enter(embedded)]
        for layer in self.layers:
            states.append(layer(states[-1], is_token)[0])
        keys = self.leave(states[-1])
        keep_hidden, _ = kept(self.config, output_hidden_states, output_attentions)
        return BaseModelOutput(
            last_hidden_state=torch.cat([keys, joined(keys, embedded)], dim=-1),
            hidden_states=(embedded, *states[1:-1], keys) if keep_hidden else None,
        )


class ConvolutionalDecoder(ConvolutionStack):
    """Convolutions from the left, each followed by attention to the source."""

    def __init__(self, config: ConvolutionalConfig) -> None:
        super().__init__(config, config.num_hidden_layers, is_decoder=True)
        self.post_init()

    @tuple_on_request
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        cache: DecoderStates | None = None,
        use_cache: bool | None = None,
        encoder_hidden_states: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
    ) -> BaseModelOutputWithPastAndCrossAttentions:
        """Ids (B, T) to what the output layer reads (B, T, E); with a ``cache``, the new tokens only.

        Hidden states are the token vectors with positions (B, T, E), the output of each layer (B, T, D), and what the
        output layer reads (B, T, E) in the place of the last. Cross-attentions are (B, 1, T, S) of each layer.
        """
        if encoder_hidden_states is None:
            raise ConfigError("encoder_hidden_states = None: the decoder attends to the encoder's output")
        vectors = pick_vectors(self.tokens, input_ids, inputs_embeds)
        seen = 0 if cache is None else cache.seen
        target = self.embed(vectors, attention_mask, seen)
        source = self._source(target, encoder_hidden_states, encoder_attention_mask)
        steps = self._run(target, new_tokens(attention_mask, vectors), source, cache)
        read = self.dropout(self.leave(steps[-1][0]))
        states, weights, last = zip(*steps, strict=True)
        keep_hidden, keep_attentions = kept(self.config, output_hidden_states, output_attentions)
        output = BaseModelOutputWithPastAndCrossAttentions(
            last_hidden_state=read,
            hidden_states=(target, *states[:-1], read) if keep_hidden else None,
            cross_attentions=weights if keep_attentions and None not in weights else None,
        )
        if use_cache is None:
            use_cache = self.config.use_cache and not self.training
        if use_cache:
            layers: list[tuple[Tensor, ...]] = [(tail,) for tail in last]
            output.cache = DecoderStates(seen + vectors.shape[1], layers)  # type: ignore[assignment]
        return output

    def _run(
        self, target: Tensor, is_token: Tensor, source: SourceContext, cache: DecoderStates | None
    ) -> list[Any]:
        """Output, weights and last inputs of each layer."""
        steps: list[Any] = []
        hidden = self.enter(target)
        for number, layer in enumerate(self.layers):
            before = None if cache is None else cache.layers[number][0]
            steps.append(layer(hidden, is_token, target, source, before))
            hidden = steps[-1][0]
        return steps

    def _source(self, target: Tensor, encoded: Tensor, mask: Tensor | None) -> SourceContext:
        keys, values = encoded.chunk(2, dim=-1)
        count = encoded.shape[1] if mask is None else mask.ne(0).sum(-1).clamp(min=1)
        scale = torch.as_tensor(count, device=encoded.device).to(encoded.dtype).sqrt().reshape(-1, 1, 1)
        blocked: Any = create_bidirectional_mask(
            config=self.config, inputs_embeds=target, attention_mask=mask, encoder_hidden_states=encoded
        )
        function: Any = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, eager_attention
        )
        return SourceContext(keys, values, scale, blocked, function)


class ConvolutionalEncoderDecoder(EncoderDecoderBody, ConvolutionalPreTrainedModel):
    """Encoder and decoder over one token table; the paper has one for each language."""

    config_class = ConvolutionalConfig
    _tied_weights_keys = {"decoder.tokens.weight": "encoder.tokens.weight"}  # noqa: RUF012

    def __init__(self, config: ConvolutionalConfig) -> None:
        super().__init__(config)
        self.encoder = ConvolutionalEncoder(config)
        self.decoder = ConvolutionalDecoder(config)
        self.post_init()


class ConvolutionalEncoderDecoderForConditionalGeneration(
    ConditionalGeneration, ConvolutionalPreTrainedModel
):
    """Translates, each layer of the decoder choosing what to read of the source."""

    config_class = ConvolutionalConfig
    _tied_weights_keys = {"head.output.weight": "model.encoder.tokens.weight"}  # noqa: RUF012

    def __init__(self, config: ConvolutionalConfig) -> None:
        super().__init__(config)
        self.model = ConvolutionalEncoderDecoder(config)
        self.head = LinearHead(config.token_size, config.vocab_size)
        self.post_init()
