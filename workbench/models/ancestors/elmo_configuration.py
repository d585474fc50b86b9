"""The configuration of ELMo: two language models in opposite directions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from workbench.models.built_in import BuiltInConfig
from workbench.models.parts import require
from workbench.records import check_fields

__all__ = ["ElmoConfig", "ElmoDepthConfig", "ElmoRecurrenceConfig"]


@dataclass(frozen=True, kw_only=True)
class ElmoRecurrenceConfig:
    """LSTM ``units`` of one direction, projected to the width of its states; by default as many as these are wide.

    ``residual``: every layer but the first adds what it reads.
    """

    units: int | None = None
    residual: bool = True

    def __post_init__(self) -> None:
        check_fields(self, "recurrence.")
        require(self.units is None or self.units >= 1, "recurrence.units", self.units, "1 or more")


@dataclass(frozen=True, kw_only=True)
class ElmoDepthConfig:
    """Recurrent layers of each direction."""

    layers: int = 2

    def __post_init__(self) -> None:
        check_fields(self, "depth.")
        require(self.layers >= 1, "depth.layers", self.layers, "1 or more")


class ElmoConfig(BuiltInConfig):
    """A forward and a backward LSTM language model that share token vectors and output layer.

    ``hidden_size`` is the width of the hidden states, both directions together: twice that of a token vector.
    ``dropout`` acts on what each layer and the output layer read.
    """

    model_type = "workbench-elmo"
    recurrence: ElmoRecurrenceConfig = field(default_factory=ElmoRecurrenceConfig)
    depth: ElmoDepthConfig = field(default_factory=ElmoDepthConfig)
    tie_word_embeddings: bool = False

    no_scores: ClassVar[str] = (
        "its two language models give a token one probability after what stands before it and one before what follows, "
        "and no text one of its own"
    )

    def _check(self) -> None:
        """What one part alone cannot know."""
        require(self.hidden_size % 2 == 0, "hidden_size", self.hidden_size, "even: half for each direction")
        units, width = self.recurrence.units, self.direction_size
        allowed = f"none, or {width} = hidden_size / 2 or more, from which states are projected"
        require(units is None or units >= width, "recurrence.units", units, allowed)

    @property
    def direction_size(self) -> int:
        """Width of a token vector and of a state of one direction."""
        return self.hidden_size // 2

    @property
    def num_hidden_layers(self) -> int:
        """Recurrent layers of each direction."""
        return self.depth.layers

    def attention_flops(self, length: int) -> int:
        """The output layer is used twice for each token."""
        return 2 * self.vocab_size * self.direction_size

    def diagram(self) -> str:
        """Both directions, layer by layer."""
        units, width = self.recurrence.units or self.direction_size, self.direction_size
        projected = f", projected to {width}" if units > width else ""
        added = "; each but the first adds what it reads" if self.recurrence.residual else ""
        return "\n".join(
            (
                f"token vectors (batch, tokens, {width})",
                f"  forward: LSTM × {self.depth.layers}, {units} units{projected}{added}",
                "  backward: the same from the last token to the first",
                f"hidden states (batch, tokens, {self.hidden_size}): forward and backward side by side",
            )
        )
