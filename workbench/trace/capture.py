"""One site of some texts, at chosen layers and positions: ``workbench.capture``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, pairwise
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from workbench.choices import member
from workbench.errors import TraceError
from workbench.models import LoadedModel, as_model
from workbench.models.dispatched import stack_layers
from workbench.shapes import Array
from workbench.terminal import counted
from workbench.text import Alignment
from workbench.trace._trace import token_rows
from workbench.trace.attention_hook import Stack
from workbench.trace.captured import Capture, CaptureOf, collect
from workbench.trace.capturing import Run, capturing
from workbench.trace.decoder import TextPass, pass_inputs, read_by, text_passes
from workbench.trace.encoding import Text, batches_of, encode_all, inputs_of, say_cut
from workbench.trace.interventions import Site
from workbench.trace.recording import to_numpy
from workbench.trace.structure import Structure, structure_of

__all__ = ["capture"]


def capture(
    model: LoadedModel | str,
    texts: str | Sequence[Text],
    site: str = Site.RESIDUAL,
    layers: int | Sequence[int] | None = None,
    positions: str | Sequence[int] | Sequence[Sequence[int]] = "all",
    *,
    stack: str | None = None,
    targets: Sequence[Text] | None = None,
    max_length: int | None = None,
    batch_size: int = 8,
    out: str | Path | None = None,
) -> Capture:
    """What ``model`` computes at one site of ``texts``; a pass ends after the last layer that is wanted.

    Nothing but what is asked for is kept, and it does not depend on ``batch_size``. Above 256 MiB values go to a
    folder as they come (safetensors) and are memory-mapped from there. Inside :func:`intervene` it is of the
    changed pass.

    Args:
        model: any loaded model, or a name as :func:`workbench.load` takes it.
        texts: a text, or several, as :func:`workbench.trace` takes them.
        site: "residual" (what leaves a layer), "attention_out" or "mlp" (what these add to it), or "head_output" (what
            each head hands to the output projection); see :class:`Site`. Attention weights: :func:`workbench.trace`.
        layers: a layer or several, from 0; all by default.
        positions: "all", "last", places for every text, or a list of places for each text; negative from the end.
        stack: "encoder", "decoder" or (heads, attention_out) "cross"; what the head reads by default.
        targets: what the decoder of an encoder-decoder reads; generated greedily where not given.
        max_length: truncate texts to this many tokens; at most what the model reads.
        batch_size: texts per forward pass.
        out: a new folder for the values, which :func:`load_capture` reads. By default they stay in memory or, above
            256 MiB, in the cache until the capture is no longer used.

    Returns:
        Values by layer and place: (layer, place, width), of heads (layer, place, head, head width).

    Raises:
        TraceError: an unknown site, a layer or position out of range, a site that the architecture does not show, a
            folder that exists or cannot be written.
        DataError: no text, or an empty one.

    Example:
        ```python
        import workbench

        captured = workbench.capture("novels-decoder", ["The boys at home", "She was"], "mlp", [1, 2], "last")
        print(captured.values.shape)  # (layer, place, width)
        ```
    """
    model, where = as_model(model), member(Site, site, "site", TraceError)
    folder = None if out is None else _new_folder(out)
    texts = [texts] if isinstance(texts, str) else texts
    with model.lock:
        structure = structure_of(model.model)
        at, numbers = structure.stack(stack), _layers(structure, stack, layers, where)
        passes = _passes(model, texts, at, targets, max_length)
        read = [read_by(model, at, one).alignment for one in passes]
        chosen = _positions(positions, [len(alignment) for alignment in read])
        with capturing(model, where, at, numbers) as run:
            found = _rows(model, run, passes, at, chosen, batch_size)
            values = _by_head(found, structure.heads[at]) if where is Site.HEAD_OUTPUT else found
            about = CaptureOf(model.name, where, at, numbers, len(passes))
            return collect(about, values, _places(read, chosen), folder)


def _new_folder(out: str | Path) -> Path:
    if Path(out).exists():
        raise TraceError(f"{out} exists already; name a new folder")
    return Path(out)


def _layers(
    structure: Structure, stack: str | None, layers: int | Sequence[int] | None, site: Site
) -> tuple[int, ...]:
    if site is Site.ATTENTION:
        raise TraceError(
            "attention weights are recorded by trace(model, texts, record={'attention'}, layers=[...]); a capture "
            "holds residual, attention_out, mlp or head_output"
        )
    where = structure.stack(stack)
    if layers is None:
        structure.check_places(where, range(structure.layers[where]))
        return tuple(range(structure.layers[where]))
    numbers = tuple(map(int, [layers] if isinstance(layers, int | np.integer) else layers))
    if not numbers:
        raise TraceError("no layer to capture: give at least one, or none at all for every layer")
    structure.check(where, numbers)
    structure.check_places(where, numbers)
    return tuple(dict.fromkeys(numbers))


def _passes(
    model: LoadedModel,
    texts: Sequence[Text],
    stack: Stack,
    targets: Sequence[Text] | None,
    max_length: int | None,
) -> list[TextPass]:
    """The texts as the model reads them; an encoder alone needs no target."""
    if stack is not Stack.ENCODER or not model.config.is_encoder_decoder or targets is not None:
        return text_passes(model, texts, targets, max_length)
    sources = encode_all(model, texts, max_length)
    say_cut(sources, model)
    return [TextPass(source, source) for source in sources]


def _positions(
    wanted: str | Sequence[int] | Sequence[Sequence[int]], lengths: Sequence[int]
) -> list[tuple[int, ...]]:
    """The places of each text, counted from its start."""
    if isinstance(wanted, str):
        if wanted not in ("all", "last"):
            raise TraceError(f"unknown positions {wanted!r}; allowed: 'all', 'last', or a list of numbers")
        return [tuple(range(n)) if wanted == "all" else (n - 1,) for n in lengths]
    listed: list[Any] = list(wanted)
    each = [listed] * len(lengths) if all(isinstance(place, Integral) for place in listed) else listed
    if len(each) != len(lengths):
        raise TraceError(f"positions of {counted(len(each), 'text')} for {counted(len(lengths), 'text')}")
    if not any(len(places) for places in each):
        raise TraceError("no position to capture: give at least one")
    for text, (places, length) in enumerate(zip(each, lengths, strict=True)):
        for place in places:
            if not -length <= place < length:
                raise TraceError(
                    f"position {place} is out of range: text {text} has {counted(length, 'token')}"
                )
    return [tuple(int(p) % n for p in places) for places, n in zip(each, lengths, strict=True)]


def _places(read: Sequence[Alignment], chosen: Sequence[Sequence[int]]) -> pd.DataFrame:
    """What the model reads at each place."""
    rows = token_rows(read)
    starts = accumulate((len(alignment) for alignment in read), initial=0)
    kept = [start + place for start, places in zip(starts, chosen, strict=False) for place in places]
    return rows.iloc[kept].reset_index(drop=True)


def _rows(
    model: LoadedModel,
    run: Run,
    passes: Sequence[TextPass],
    stack: Stack,
    chosen: Sequence[Sequence[int]],
    batch_size: int,
) -> Iterator[tuple[int, Float[Array, "layer place width"]]]:
    """First place and values of each text, a batch at a time."""
    starts = [first for first, _ in pairwise(accumulate(map(len, chosen), initial=0))]
    alone = stack is Stack.ENCODER and bool(model.config.is_encoder_decoder)
    lengths = [len(read_by(model, stack, one).alignment) for one in passes]
    batches = batches_of(model, [one.source for one in passes], batch_size)
    for rows in chain.from_iterable(_oblong(rows, lengths) for rows in batches):
        batch = [passes[i] for i in rows]
        inputs = inputs_of(model, [one.source for one in batch]) if alone else pass_inputs(model, batch)
        found = run(inputs)
        for row, text in enumerate(rows):
            places = torch.tensor(chosen[text], dtype=torch.long, device=found[0].device)
            yield starts[text], to_numpy(_stacked(found, row, places))


def _oblong(rows: list[int], lengths: Sequence[int]) -> Iterator[list[int]]:
    """The batch, in parts where it has as many texts as tokens: else nothing would tell the two axes apart."""
    if 1 < len(rows) == max(lengths[i] for i in rows):
        yield rows[:1]
        yield from _oblong(rows[1:], lengths)
    else:
        yield rows


def _stacked(layers: Sequence[Tensor], row: int, places: Tensor) -> Float[Tensor, "layer place width"]:
    with torch.inference_mode():
        return stack_layers([layer[row, places.to(layer.device)] for layer in layers])


def _by_head(
    found: Iterator[tuple[int, Array]], heads: int
) -> Iterator[tuple[int, Float[Array, "layer place head width"]]]:
    for first, values in found:
        yield first, values.reshape(*values.shape[:2], heads, -1)
