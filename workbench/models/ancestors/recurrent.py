"""Recurrent encoder-decoders with attention: of Bahdanau et al. 2015 and Luong et al. 2015, and what lies between.

Axes: B text, T target token, S source token, E width of token vectors, D width of a state.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutput, BaseModelOutputWithPastAndCrossAttentions

from workbench.errors import ConfigError
from workbench.models.ancestors.base import AncestorPreTrainedModel, LinearHead, TokenTable, new_tokens
from workbench.models.ancestors.recurrent_configuration import RecurrentConfig
from workbench.models.ancestors.states import DecoderStates
from workbench.models.base import tuple_on_request
from workbench.models.encoder_decoder import EncoderDecoderBody
from workbench.models.heads.generation import ConditionalGeneration
from workbench.models.outputs import kept, pick_vectors
from workbench.nn.recurrent import AlignmentScore, RecurrentCell, RecurrentLayer, State, TokenOrder

__all__ = [
    "RecurrentDecoder",
    "RecurrentEncoder",
    "RecurrentEncoderDecoder",
    "RecurrentEncoderDecoderForConditionalGeneration",
]


class RecurrentEncoder(TokenTable, AncestorPreTrainedModel):
    """Layers of a GRU or LSTM over the source; their states are what the decoder attends to."""

    config_class = RecurrentConfig
    config: RecurrentConfig

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__(config)
        cell, width = config.cell, config.hidden_size
        self.tokens = nn.Embedding(config.vocab_size, config.token_size)
        self.dropout = nn.Dropout(config.dropout)
        sizes = [config.token_size] + [config.source_size] * (config.depth.layers - 1)
        self.layers = nn.ModuleList(
            RecurrentLayer(kind=cell.kind, inputs=size, width=width, bidirectional=cell.bidirectional)
            for size in sizes
        )
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
        """Ids (B, S) to states (B, S, D), or (B, S, 2 D) of both directions; the mask is nonzero at tokens.

        Hidden states are the token vectors (B, S, E) and the output of each layer.
        """
        states = [pick_vectors(self.tokens, input_ids, inputs_embeds)]
        order = TokenOrder.of(attention_mask, states[0])
        for layer in self.layers:
            states.append(layer(self.dropout(states[-1]), order))
        keep_hidden, _ = kept(self.config, output_hidden_states, output_attentions)
        return BaseModelOutput(
            last_hidden_state=states[-1], hidden_states=tuple(states) if keep_hidden else None
        )


class RecurrentReadout(nn.Module):
    """What the output layer reads: state, context and, where it is seen, the token read; (B, …, width) each.

    ``maxout``: Bahdanau et al. 2015, appendix A.2.2, on the state that the token has been read into, as their equation
    4. ``tanh`` of state and context: Luong et al. 2015, equation 5.
    """

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.has_pairs = config.readout.kind == "maxout"
        self.sees_token = config.readout.sees_token
        inputs = config.hidden_size + config.source_size + (config.token_size if self.sees_token else 0)
        self.dense = nn.Linear(inputs, config.readout_size * (2 if self.has_pairs else 1))

    def forward(self, state: Tensor, context: Tensor, token: Tensor) -> Tensor:
        """(B, …, D), (B, …, source) and (B, …, E) to (B, …, readout)."""
        parts = [state, context, token] if self.sees_token else [state, context]
        values = self.dense(torch.cat(parts, dim=-1))
        return values.unflatten(-1, (-1, 2)).amax(-1) if self.has_pairs else values.tanh()


class _Step(NamedTuple):
    """What one token leaves behind: states of all layers, context and weights, and what is fed to the next step."""

    layers: list[State]
    context: Tensor  # (B, source)
    weights: Tensor  # (B, S)
    fed: Tensor  # (B, readout) with input feeding, else of width 0


class _Source(NamedTuple):
    keys: Tensor  # (B, S, width)
    states: Tensor  # (B, S, source)
    mask: Tensor | None  # (B, S)


class RecurrentDecoder(TokenTable, AncestorPreTrainedModel):
    """A GRU or LSTM over the target that attends to the source at each token.

    Its first state is a layer over the encoder's states: over the backward one of the first token where it reads both
    ways (Bahdanau et al. 2015, appendix A.2.2), over that of the last token otherwise, where Luong et al. 2015 copy
    states layer by layer. The memory of an LSTM begins at zero. The decoder needs no more than the encoder's states.
    """

    config_class = RecurrentConfig
    config: RecurrentConfig

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__(config)
        chosen, width = config.attention, config.hidden_size
        self.tokens = nn.Embedding(config.vocab_size, config.token_size)
        self.dropout = nn.Dropout(config.dropout)
        self.attends_before = chosen.query == "previous"
        self.fed_size = config.readout_size if chosen.input_feeding else 0
        beside = config.source_size if self.attends_before else self.fed_size
        sizes = [config.token_size + beside] + [width] * (config.num_hidden_layers - 1)
        self.layers = nn.ModuleList(
            RecurrentCell(kind=config.cell.kind, inputs=size, width=width) for size in sizes
        )
        self.first_states = nn.ModuleList(nn.Linear(width, width) for _ in sizes)
        self.alignment = AlignmentScore(
            score=chosen.score, query=width, source=config.source_size, size=chosen.size or width
        )
        self.readout = RecurrentReadout(config)
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
        """Ids (B, T) to what the output layer reads (B, T, readout); with a ``cache``, the new tokens only.

        Hidden states are the token vectors (B, T, E), the states of each layer (B, T, D), and what the output layer
        reads. Cross-attentions hold the alignment, (B, 1, T, S). Masks are nonzero at tokens.
        """
        if encoder_hidden_states is None:
            raise ConfigError("encoder_hidden_states = None: the decoder attends to the encoder's states")
        vectors = pick_vectors(self.tokens, input_ids, inputs_embeds)
        is_token = new_tokens(attention_mask, vectors)
        keys = self.alignment.keys(encoder_hidden_states) if cache is None else cache.rest[0]
        source = _Source(keys, encoder_hidden_states, encoder_attention_mask)
        step = self._first(source, vectors) if cache is None else self._stored(cache, source)
        steps: list[_Step] = []
        for place, vector in enumerate(self.dropout(vectors).unbind(1)):
            step = self._step(step, vector, is_token[:, place, None], source)
            steps.append(step)
        output = self._output(vectors, steps, output_hidden_states, output_attentions)
        if use_cache is None:
            use_cache = self.config.use_cache and not self.training
        if use_cache:
            seen = vectors.shape[1] + (cache.seen if cache is not None else 0)
            output.cache = DecoderStates(seen, step.layers, (keys, step.fed))  # type: ignore[assignment]
        return output

    def _first(self, source: _Source, vectors: Tensor) -> _Step:
        """Before the first token."""
        order = TokenOrder.of(source.mask, source.states)
        end = order.ends(source.states, first=self.config.cell.bidirectional)
        end = end[:, -self.config.hidden_size :]  # of both directions the backward one
        states = [torch.tanh(first(end)) for first in self.first_states]
        has_memory = self.config.cell.kind == "lstm"
        layers: list[State] = [(s, torch.zeros_like(s)) if has_memory else (s,) for s in states]
        return self._nothing(source, layers, vectors.new_zeros(len(vectors), self.fed_size))

    def _stored(self, cache: DecoderStates, source: _Source) -> _Step:
        return self._nothing(source, cache.layers, cache.rest[1])

    def _nothing(self, source: _Source, layers: list[State], fed: Tensor) -> _Step:
        """States without a context yet."""
        return _Step(
            layers, torch.zeros_like(source.states[:, 0]), torch.zeros_like(source.states[..., 0]), fed
        )

    def _step(self, before: _Step, vector: Tensor, is_token: Tensor, source: _Source) -> _Step:
        """Read one token (B, E); where it is padding, (B, 1), states stay as they are."""
        if self.attends_before:
            context, weights = self.alignment(before.layers[-1][0], *source)
            layers = self._read([vector, context], before.layers, is_token)
        else:
            layers = self._read([vector, before.fed], before.layers, is_token)
            context, weights = self.alignment(layers[-1][0], *source)
        fed = before.fed
        if self.fed_size:
            read = self.readout(self.dropout(layers[-1][0]), context, vector)
            fed = torch.where(is_token, read, fed)
        return _Step(layers, context, weights, fed)

    def _read(self, parts: list[Tensor], states: list[State], is_token: Tensor) -> list[State]:
        """Through all layers."""
        layers: list[State] = []
        entering = torch.cat(parts, dim=-1)
        for cell, state in zip(self.layers, states, strict=True):
            after = cell(entering, state)
            layers.append(
                tuple(torch.where(is_token, new, old) for new, old in zip(after, state, strict=True))
            )
            entering = self.dropout(layers[-1][0])
        return layers

    def _output(
        self, vectors: Tensor, steps: list[_Step], output_hidden: bool | None, output_attentions: bool | None
    ) -> BaseModelOutputWithPastAndCrossAttentions:
        states = [
            torch.stack([step.layers[layer][0] for step in steps], dim=1) for layer in range(len(self.layers))
        ]
        if self.fed_size:
            read = torch.stack([step.fed for step in steps], dim=1)
        else:
            contexts = torch.stack([step.context for step in steps], dim=1)
            read = self.readout(self.dropout(states[-1]), contexts, self.dropout(vectors))
        keep_hidden, keep_attentions = kept(self.config, output_hidden, output_attentions)
        weights = torch.stack([step.weights for step in steps], dim=1)[:, None]  # (B, 1, T, S)
        return BaseModelOutputWithPastAndCrossAttentions(
            last_hidden_state=read,
            hidden_states=(vectors, *states, read) if keep_hidden else None,
            cross_attentions=(weights,) if keep_attentions else None,
        )


class RecurrentEncoderDecoder(EncoderDecoderBody, AncestorPreTrainedModel):
    """Encoder and decoder over one token table; the papers have one for each language."""

    config_class = RecurrentConfig
    _tied_weights_keys = {"decoder.tokens.weight": "encoder.tokens.weight"}  # noqa: RUF012

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__(config)
        self.encoder = RecurrentEncoder(config)
        self.decoder = RecurrentDecoder(config)
        self.post_init()


class RecurrentEncoderDecoderForConditionalGeneration(ConditionalGeneration, AncestorPreTrainedModel):
    """Translates: Bahdanau et al. 2015, or Luong et al. 2015, as configured."""

    config_class = RecurrentConfig
    _tied_weights_keys = {"head.output.weight": "model.encoder.tokens.weight"}  # noqa: RUF012

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__(config)
        self.model = RecurrentEncoderDecoder(config)
        self.head = LinearHead(config.readout_size, config.vocab_size)
        self.post_init()
