"""Reading every layer: a lens maps each state of the residual stream to logits, and a record sums them up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from workbench.drawn import Drawn
from workbench.errors import DataError, NumericsError, TraceError
from workbench.models import Kind, LoadedModel
from workbench.models.dispatched import stack_layers
from workbench.scoring import project_only
from workbench.shapes import Array
from workbench.statistics import Statistic
from workbench.terminal import counted
from workbench.trace import Text
from workbench.trace.residual import Reading, StackRun, check_stack, read_text, run_from, run_stack

__all__ = [
    "LensReading",
    "TargetToken",
    "Translate",
    "continuation_by_layer",
    "continuation_trajectory",
    "different_targets",
    "lens_text",
    "logit_lens",
    "read_layers",
    "target_token",
]


@dataclass(frozen=True)
class TargetToken:
    """A vocabulary entry. ``pieces`` is above 1 where ``text`` needs more and ``id`` is only the first of them."""

    text: str
    id: int
    token: str
    pieces: int = 1

    @property
    def note(self) -> str:
        """What the reader must know where the target has several pieces; empty otherwise."""
        if self.pieces == 1:
            return ""
        return f"{self.text!r} has {self.pieces} pieces; measured is its first, {self.token!r}"


def target_token(model: LoadedModel, text: str) -> TargetToken:
    """The token that ``text`` begins with: all of it, where the vocabulary has it in one piece.

    A leading space counts for vocabularies that mark it. Of a target of several pieces the first is taken, and
    :attr:`TargetToken.note` says so. Raises :class:`~workbench.errors.DataError` for a target that is empty or
    not in the vocabulary.
    """
    tokenizer = model.tokenizer
    ids = _pieces(model, text)
    if not ids or tokenizer.unk_token_id in ids:
        raise DataError(
            f"target {text!r} is not in the vocabulary of {model.name}; name a word or piece that its tokenizer "
            "knows (see: workbench tokenize)"
        )
    return TargetToken(text, ids[0], str(tokenizer.convert_ids_to_tokens(ids[0])), len(ids))


def _pieces(model: LoadedModel, text: str) -> list[int]:
    """The ids of ``text``; the vocabulary's own spelling ("Ġare", "##s") is understood too."""
    tokenizer = model.tokenizer
    whole = _entry(tokenizer, text)
    if whole is None and not text.strip():
        return []
    if whole is not None and (text in tokenizer.all_special_tokens or text.startswith(("Ġ", "▁", "#"))):
        return [whole]
    found = [tokenizer(t, add_special_tokens=False).input_ids for t in (text, text.strip())]
    # A sentence-piece vocabulary puts a space of its own before a text that begins with one.
    marks_spaces = model.kind is not Kind.MASKED and len(found[0]) == 1
    return list(found[0] if marks_spaces or len(found[0]) <= len(found[1]) else found[1])


def _entry(tokenizer: Any, text: str) -> int | None:
    """The id of the vocabulary's entry that is spelled so, if there is one."""
    number = tokenizer.convert_tokens_to_ids(text)
    known = number is not None and (number != tokenizer.unk_token_id or text == tokenizer.unk_token)
    return int(number) if known else None


def different_targets(target: TargetToken, contrast: TargetToken | None) -> None:
    """Raise :class:`~workbench.errors.DataError` where target and contrast begin with the same piece."""
    if contrast is not None and contrast.id == target.id:
        raise DataError(
            f"target {target.text!r} and contrast {contrast.text!r} both begin with {target.token!r}, so nothing "
            "tells them apart at one position; choose targets that differ in their first piece"
        )


Translate = Callable[[int, Tensor], Tensor]


"""Layer (0: embeddings) and state (B, T, D) to the state that is read off."""


QUANTITIES = {
    "entropy": "nats",
    "divergence": "nats",
    "target log-probability": "nats",
    "target rank": "rank from 1",
    "contrast log-probability": "nats",
    "margin": "nats",
    "top probability": "probability",
}


@dataclass(frozen=True, eq=False, repr=False)
class LensReading(Drawn):
    """What each layer of a model would predict at each position. Layer 0 is the embeddings; the last, the output.

    ``divergence`` is KL(output ‖ layer) in nats. The target is one token for all positions, or by default each
    position's own prediction at the last layer. A causal model's position predicts the token after it.
    ``settling`` is the first layer from which on the likeliest token stays the one of the output.
    """

    drawn_by = "lens_grid"

    model: str
    kind: Kind
    lens: str  # "logit" or "tuned"
    tokens: tuple[str, ...]  # read at each position
    positions: tuple[int, ...]
    top_ids: Int[Array, "layer position rank"]
    top_tokens: tuple[tuple[tuple[str, ...], ...], ...]  # the same, as the vocabulary spells them
    top_probabilities: Float[Array, "layer position rank"]
    entropy: Float[Array, "layer position"]
    divergence: Float[Array, "layer position"]
    target_ids: Int[Array, " position"]
    target_log_probability: Float[Array, "layer position"]
    target_rank: Int[Array, "layer position"]
    target: TargetToken | None = None  # None: each position's own prediction
    contrast: TargetToken | None = None
    contrast_log_probability: Float[Array, "layer position"] | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def layers(self) -> int:
        """Number of readings: one more than the model has blocks."""
        return len(self.entropy)

    @property
    def settling(self) -> Int[Array, " position"]:
        """First layer from which on the top token is the output's, for each position."""
        agrees = self.top_ids[:, :, 0] == self.top_ids[-1, :, 0]
        return _settled(agrees)

    @property
    def margin(self) -> Float[Array, "layer position"]:
        """Log-probability of the target minus that of the contrast, in nats."""
        if self.contrast_log_probability is None:
            raise DataError("a margin needs a contrast; name one: contrast=' is'")
        return self.target_log_probability - self.contrast_log_probability

    def statistic(self, name: str) -> Statistic:
        """One of the quantities by layer and position; the positions are labelled ``place token``."""
        values = {
            "entropy": lambda: self.entropy,
            "divergence": lambda: self.divergence,
            "target log-probability": lambda: self.target_log_probability,
            "target rank": lambda: self.target_rank.astype(float),
            "contrast log-probability": lambda: self._contrast(),
            "margin": lambda: self.margin,
            "top probability": lambda: self.top_probabilities[:, :, 0],
        }
        if name not in values:
            raise DataError(f"a lens reading has no {name!r}; it has {', '.join(QUANTITIES)}")
        labels = {
            "layer": ("embeddings", *range(1, self.layers)),
            "position": tuple(f"{p} {t}" for p, t in zip(self.positions, self.tokens, strict=True)),
        }
        return Statistic(
            name=f"{name} ({self.lens} lens)",
            unit=QUANTITIES[name],
            values=values[name](),
            axes=("layer", "position"),
            labels=labels,
            note="; ".join(self.notes),
        )

    def to_frame(self) -> pd.DataFrame:
        """One row a layer and position: token read, prediction, its probability, entropy, divergence, the target's."""
        layer, position = (axis.ravel() for axis in np.indices(self.entropy.shape))
        return pd.DataFrame(
            {
                "layer": layer,
                "position": np.take(self.positions, position),
                "token": [self.tokens[p] for p in position],
                "prediction": [self.top_tokens[n][p][0] for n, p in zip(layer, position, strict=True)],
                "probability": self.top_probabilities[:, :, 0].ravel(),
                "entropy": self.entropy.ravel(),
                "divergence": self.divergence.ravel(),
                "target log-probability": self.target_log_probability.ravel(),
                "target rank": self.target_rank.ravel(),
                **({} if self.contrast is None else {"margin": self.margin.ravel()}),
            }
        )

    def __repr__(self) -> str:
        last = self.top_tokens[-1][-1][0]
        settled = int(self.settling[-1])
        size = f"{counted(self.layers, 'layer')}, {counted(len(self.tokens), 'position')}"
        return (
            f"<LensReading of {self.model} ({self.lens} lens): {size}; "
            f"after {self.tokens[-1]!r} {last!r} from layer {settled} on>"
        )

    def _contrast(self) -> Float[Array, "layer position"]:
        if self.contrast_log_probability is None:
            raise DataError("there is no contrast; name one: contrast=' is'")
        return self.contrast_log_probability


def logit_lens(
    model: LoadedModel,
    text: Text,
    *,
    target: str | None = None,
    contrast: str | None = None,
    target_text: Text | None = None,
    positions: Sequence[int] | None = None,
    top: int = 5,
) -> LensReading:
    """Read the output's vocabulary off every layer (nostalgebraist 2020, "interpreting GPT: the logit lens").

    Each layer's residual state goes through all that follows the last block in the model itself (final norm,
    head transform, scaling), so the last reading is the model's output, bit for bit. For decoders, encoders with
    a masked-LM head, and the decoder of encoder-decoders, which reads ``target_text`` (generated by default).

    Args:
        model: a model with a vocabulary head.
        text: what the model reads.
        target: a word whose log-probability and rank are followed, such as ``" Paris"``.
        contrast: another, for the margin between the two.
        target_text: what the decoder of an encoder-decoder reads.
        positions: places to read, negative from the end; all by default.
        top: how many of each layer's likeliest tokens are kept.

    Raises:
        ModelError: the model has no vocabulary head.
        DataError: a target that is not in the vocabulary, or an empty text.
        TraceError: a position out of range.
    """
    reading = lens_text(model, text, target_text)
    return read_layers(
        model, reading, lambda layer, state: state, "logit", (target, contrast), positions, top
    )


def lens_text(model: LoadedModel, text: Text, target_text: Text | None) -> Reading:
    """The text as the model reads it; raises ModelError for a model without a vocabulary head."""
    model.require(Kind.CAUSAL, Kind.MASKED, Kind.SEQ2SEQ, verb="a lens")
    check_stack(model)
    return read_text(model, text, target_text)


_ROWS = (
    256  # of logits at once, unless a layer has more: the vocabulary's matrix is read once for all of them
)


def _run(
    model: LoadedModel, inputs: Mapping[str, Any], positions: Sequence[int], length: int
) -> tuple[StackRun, Float[Tensor, "P V"]]:
    """A pass over one text of ``length`` tokens, and its logits at ``positions``, which alone are computed."""
    places = torch.tensor(positions, device=model.device)
    with project_only(model.model, places, (1, length)) as projected:
        run = run_stack(model, inputs)
    return run, projected.chosen(run.logits)


def _read_off(
    model: LoadedModel, run: StackRun, positions: Sequence[int], length: int, translate: Translate
) -> Iterator[Float[Tensor, "P V"]]:
    """Logits at ``positions`` of ``length`` read off every layer but the last; several layers share a pass."""
    step = max(1, _ROWS // max(1, len(positions)))
    for start in range(0, run.layers, step):
        chunk = range(start, min(start + step, run.layers))
        states = stack_layers(
            [translate(layer, run.states[layer]) for layer in chunk], torch.cat
        )  # (layer, T, D)
        rows = len(states)  # their T may be longer than the text: padded to a window, or several streams
        places = [row * length + position for row in range(rows) for position in positions]
        flat = torch.tensor(places, device=states.device)
        with project_only(model.model, flat, (rows, length)) as projected:
            logits = projected.chosen(run_from(model, run, run.layers, states))
        yield from logits.split(len(positions))


def read_layers(
    model: LoadedModel,
    reading: Reading,
    translate: Translate,
    lens: str,
    targets: tuple[str | None, str | None],
    positions: Sequence[int] | None,
    top: int,
) -> LensReading:
    """The record of a lens that reads ``translate(layer, state)`` off each layer but the last, the output's own."""
    chosen = _positions(positions, len(reading))
    target, contrast = (None if t is None else target_token(model, t) for t in targets)
    if contrast is not None and target is None:
        raise DataError("a contrast needs a target to be compared with; name both")
    if target is not None:
        different_targets(target, contrast)
    with torch.no_grad():
        run, output = _run(model, reading.inputs, chosen, len(reading))
        final = _log_probabilities(output)
        target_ids = final.argmax(-1) if target is None else torch.full((len(chosen),), target.id)
        columns = _Columns(final, target_ids.to(final.device), None if contrast is None else contrast.id, top)
        for logits in _read_off(model, run, chosen, len(reading), translate):
            columns.add(_log_probabilities(logits))
        columns.add(final)
    ids = columns.array("top_ids").astype(np.int64)
    return LensReading(
        model=model.name,
        kind=model.kind,
        lens=lens,
        tokens=tuple(reading.alignment.tokens[p] for p in chosen),
        positions=chosen,
        top_ids=ids,
        top_tokens=_spelled(model, ids),
        top_probabilities=columns.array("top_probabilities"),
        entropy=columns.array("entropy"),
        divergence=columns.array("divergence"),
        target_ids=target_ids.cpu().numpy(),
        target_log_probability=columns.array("target"),
        target_rank=columns.array("rank").astype(np.int64),
        target=target,
        contrast=contrast,
        contrast_log_probability=None if contrast is None else columns.array("contrast"),
        notes=tuple(t.note for t in (target, contrast) if t is not None and t.note),
    )


def _positions(positions: Sequence[int] | None, length: int) -> tuple[int, ...]:
    if positions is None:
        return tuple(range(length))
    for position in positions:
        if not -length <= position < length:
            raise TraceError(f"position {position} is out of range: the text has {counted(length, 'token')}")
    return tuple(position % length for position in positions)


def _log_probabilities(logits: Float[Tensor, "P V"]) -> Float[Tensor, "P V"]:
    found = logits.float().log_softmax(-1)
    if bool(found.sum(-1).isnan().any()):
        raise NumericsError("the model gave NaN logits; its weights are broken: see workbench doctor")
    return found


class _Columns:
    """Numbers of each layer, kept small: one layer's distribution at a time."""

    def __init__(
        self, final: Float[Tensor, "P V"], target_ids: Int[Tensor, " P"], contrast_id: int | None, top: int
    ) -> None:
        self._final = final
        self._final_probabilities = final.exp()
        self._target_ids = target_ids[:, None]
        self._contrast_id = contrast_id
        self._top = min(top, final.shape[-1])
        self._found: dict[str, list[Tensor]] = {}

    def add(self, layer: Float[Tensor, "P V"]) -> None:
        """Take in one layer's log-probabilities."""
        best = layer.topk(self._top, dim=-1)
        chosen = layer.gather(1, self._target_ids)
        bounded = layer.clamp_min(torch.finfo(layer.dtype).min)  # zero times it is zero
        columns = {
            "top_ids": best.indices,
            "top_probabilities": best.values.exp(),
            "entropy": -bounded.mul_(layer.exp()).sum(-1),
            "divergence": (self._final - layer).mul_(self._final_probabilities).sum(-1),
            "target": chosen[:, 0],
            "rank": (layer > chosen).sum(-1) + 1,
        }
        if self._contrast_id is not None:
            columns["contrast"] = layer[:, self._contrast_id]
        for name, column in columns.items():
            self._found.setdefault(name, []).append(column.cpu())

    def array(self, name: str) -> Array:
        """(layer, position, …)."""
        found: Array = torch.stack(self._found[name]).numpy()
        return found


def _spelled(model: LoadedModel, ids: Array) -> tuple[tuple[tuple[str, ...], ...], ...]:
    names = model.tokenizer.convert_ids_to_tokens
    return tuple(tuple(tuple(map(str, names(row.tolist()))) for row in layer) for layer in ids)


def _settled(agrees: Array) -> Int[Array, " position"]:
    """First layer from which on a column (layer, position) of truths stays true."""
    broken = ~agrees[::-1]
    first = np.where(broken.any(0), broken.argmax(0), len(agrees))
    return np.asarray(len(agrees) - first)


def continuation_by_layer(
    model: LoadedModel, ids: Sequence[int], start: int, translate: Translate | None = None
) -> Float[Array, "layer token"]:
    """Log-probability (nats) of each of a causal model's tokens from ``start`` on, read off each layer.

    ``ids`` is a whole text as the model reads it; its token ``start`` (1 or more) is predicted at the place
    before it. Raises :class:`~workbench.errors.ModelError` for another kind of model.
    """
    return continuation_trajectory(model, ids, start, translate)[0]


def continuation_trajectory(
    model: LoadedModel, ids: Sequence[int], start: int, translate: Translate | None = None
) -> tuple[Float[Array, "layer token"], Int[Array, "layer token"]]:
    """As :func:`continuation_by_layer`, and each token's rank in the vocabulary, from 1, at each layer."""
    model.require(Kind.CAUSAL, verb="reading a continuation off the layers")
    if not 1 <= start < len(ids):
        raise TraceError(
            f"start {start} is out of range: a text of {counted(len(ids), 'token')} has 1 to {len(ids) - 1}"
        )
    check_stack(model)
    read = torch.tensor([list(ids)], device=model.device)
    inputs = {"input_ids": read, "attention_mask": torch.ones_like(read)}
    places, targets = range(start - 1, len(ids) - 1), read[0, start:, None]
    found, ranks = [], []
    with torch.no_grad():
        run, output = _run(model, inputs, places, len(ids))
        layers = _read_off(model, run, places, len(ids), translate or (lambda layer, state: state))
        for logits in chain(layers, [output]):
            chosen = logits.gather(1, targets)
            found.append(logits.float().log_softmax(-1).gather(1, targets)[:, 0].cpu())
            ranks.append(((logits > chosen).sum(-1) + 1).cpu())
    log_probabilities: Array = torch.stack(found).numpy()
    return log_probabilities, torch.stack(ranks).numpy()
