"""The configuration of recurrent encoder-decoders with attention."""

from __future__ import annotations

from dataclasses import dataclass, field

from transformers import PreTrainedConfig

from workbench.models.ancestors.parts import SidesConfig, TokenVectorConfig, one_of, positive
from workbench.models.built_in import BuiltInConfig
from workbench.models.parts import require
from workbench.nn.recurrent import CELLS, SCORES
from workbench.records import check_fields

__all__ = ["AlignmentConfig", "CellConfig", "ReadoutConfig", "RecurrentConfig"]

QUERIES = ("previous", "current")
READOUTS = ("maxout", "tanh")


@dataclass(frozen=True, kw_only=True)
class CellConfig:
    """``kind``: gru or lstm. ``bidirectional``: the encoder reads both ways, each with a state of full width."""

    kind: str = "gru"
    bidirectional: bool = True

    def __post_init__(self) -> None:
        check_fields(self, "cell.")
        one_of("cell.kind", self.kind, CELLS)


@dataclass(frozen=True, kw_only=True)
class AlignmentConfig:
    """``query``: the state that attends is the one before the token is read, or the current one after it.

    ``size`` is the hidden width of additive scores, by default that of the states. ``input_feeding``: the decoder
    reads its last output beside the token; for ``current``, since with ``previous`` it reads the context itself.
    """

    score: str = "additive"
    query: str = "previous"
    size: int | None = None
    input_feeding: bool = False

    def __post_init__(self) -> None:
        check_fields(self, "attention.")
        one_of("attention.score", self.score, SCORES)
        one_of("attention.query", self.query, QUERIES)
        positive("attention.size", self.size)
        allowed = "true only with attention.query = current"
        require(self.query == "current" or not self.input_feeding, "attention.input_feeding", True, allowed)


@dataclass(frozen=True, kw_only=True)
class ReadoutConfig:
    """What the output layer reads: a layer over state and context, and over the token read if it ``sees_token``.

    ``kind``: tanh, or maxout, the larger of each pair of twice as many units. ``size`` is its width, by default
    that of the states.
    """

    kind: str = "maxout"
    size: int | None = None
    sees_token: bool = True

    def __post_init__(self) -> None:
        check_fields(self, "readout.")
        one_of("readout.kind", self.kind, READOUTS)
        positive("readout.size", self.size)


class RecurrentConfig(BuiltInConfig):
    """A recurrent encoder and a recurrent decoder that attends to it.

    ``hidden_size`` is the width of a state in one direction. ``dropout`` acts on token vectors, between layers, and
    before the output layer.
    """

    model_type = "workbench-recurrent"
    is_encoder_decoder: bool = True
    embeddings: TokenVectorConfig = field(default_factory=TokenVectorConfig)
    cell: CellConfig = field(default_factory=CellConfig)
    attention: AlignmentConfig = field(default_factory=AlignmentConfig)
    depth: SidesConfig = field(default_factory=SidesConfig)
    readout: ReadoutConfig = field(default_factory=ReadoutConfig)
    tie_word_embeddings: bool = False

    def _check(self) -> None:
        """What one part alone cannot know."""
        if self.attention.score == "dot":
            source = self.source_size
            allowed = f"additive or general, since states of {self.hidden_size} meet a source of {source}"
            require(source == self.hidden_size, "attention.score", "dot", allowed)
        if self.tie_word_embeddings:
            same = self.readout_size == self.token_size
            allowed = (
                f"false, since readout.size = {self.readout_size} and embeddings.size = {self.token_size}"
            )
            require(same, "tie_word_embeddings", True, allowed)

    @property
    def token_size(self) -> int:
        """Width of token vectors."""
        return self.embeddings.size or self.hidden_size

    @property
    def source_size(self) -> int:
        """Width of the encoder's states, both directions together."""
        return self.hidden_size * (2 if self.cell.bidirectional else 1)

    @property
    def readout_size(self) -> int:
        """Width of what the output layer reads."""
        return self.readout.size or self.hidden_size

    @property
    def num_hidden_layers(self) -> int:
        """Recurrent layers of the decoder."""
        return self.depth.decoder_layers or self.depth.layers

    @property
    def num_attention_heads(self) -> int:
        """One alignment."""
        return 1

    def layer_counts(self) -> str:
        """Layers of the encoder and of the decoder."""
        return f"{self.depth.layers} + {self.num_hidden_layers}"

    def attention_flops(self, length: int) -> int:
        """Scores and weighted mean over ``length`` source tokens, for each target token."""
        scored = self.attention.size or self.hidden_size
        return 2 * length * (scored + self.source_size)

    def diagram(self) -> str:
        """One step of the decoder."""
        cell, chosen = self.cell.kind.upper(), self.attention
        way = "bidirectional " if self.cell.bidirectional else ""
        attend = f"attend to the source: {chosen.score} scores of the {chosen.query} state"
        fed = "context" if chosen.query == "previous" else "last output" if chosen.input_feeding else ""
        read = f"{cell} × {self.num_hidden_layers} reads the token" + (f" and the {fed}" if fed else "")
        steps = [attend, read] if chosen.query == "previous" else [read, attend]
        seen = "state, context and token" if self.readout.sees_token else "state and context"
        return "\n".join(
            (
                f"encoder: {way}{cell} × {self.depth.layers}, states (batch, source, {self.source_size})",
                "decoder, one token after the other:",
                *(f"  {number}. {step}" for number, step in enumerate(steps, 1)),
                f"  3. {self.readout.kind} of {seen}: {self.readout_size}",
            )
        )

    def get_text_config(self, decoder: bool | None = None, encoder: bool | None = None) -> PreTrainedConfig:
        """This configuration itself: encoder and decoder share it."""
        return self
