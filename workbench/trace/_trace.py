"""The frozen record of what a forward pass did."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from jaxtyping import Float
from safetensors.numpy import load_file, save_file
from torch import Tensor

from workbench.drawn import Drawn
from workbench.errors import ModelError, TraceError
from workbench.folders import folder_by_rename
from workbench.models import Kind, LoadedModel
from workbench.shapes import Array, AttentionArray, HiddenArray
from workbench.terminal import counted
from workbench.text import Alignment
from workbench.trace.attention_hook import Stack

__all__ = [
    "Record",
    "Target",
    "TextTrace",
    "Trace",
    "check_target",
    "load_trace",
    "save_trace",
    "target_score",
    "token_rows",
]


class Record(StrEnum):
    """What a trace can hold."""

    ATTENTION = "attention"
    HIDDEN = "hidden"
    LOGITS = "logits"
    GRADIENTS = "gradients"
    QUERIES_KEYS = "queries_keys"
    MLP = "mlp"


# Field of a TextTrace -> what has to be recorded to fill it.
_RECORDED_BY = {
    "encoder_attention": Record.ATTENTION,
    "decoder_attention": Record.ATTENTION,
    "cross_attention": Record.ATTENTION,
    "hidden": Record.HIDDEN,
    "encoder_hidden": Record.HIDDEN,
    "logits": Record.LOGITS,
    "gradients": Record.GRADIENTS,
    "queries": Record.QUERIES_KEYS,
    "keys": Record.QUERIES_KEYS,
    "values": Record.QUERIES_KEYS,
    "mlp": Record.MLP,
}


@dataclass(frozen=True, eq=False)
class TextTrace:
    """One text of a trace, without padding. An array that was not recorded is ``None``: see :meth:`get`.

    In an encoder-decoder ``alignment`` is of the target, which the main stack reads, and ``source`` of the
    source; elsewhere ``source`` is ``None``. Layer axes follow ``Trace.layers`` of their stack, except that
    ``hidden`` and ``gradients`` always hold all layers and begin with the embeddings; ``hidden[-1]`` is what
    the head reads (after a final norm where there is one); layers narrower than others end in zeros. Head axes
    follow ``Trace.heads``.
    """

    alignment: Alignment
    segment_ids: tuple[int, ...]
    truncated: int  # tokens that did not fit into the model
    source: Alignment | None = None
    encoder_attention: AttentionArray | None = None
    decoder_attention: AttentionArray | None = None
    cross_attention: AttentionArray | None = None
    hidden: HiddenArray | None = None
    encoder_hidden: HiddenArray | None = None  # of an encoder-decoder
    logits: Float[Array, "token vocabulary"] | None = None
    gradients: HiddenArray | None = None  # of the target score with respect to ``hidden``
    queries: Float[Array, "layer head token head_width"] | None = None  # of the main stack's self-attention
    keys: Float[Array, "layer key_head token head_width"] | None = None
    values: Float[Array, "layer key_head token head_width"] | None = None
    mlp: HiddenArray | None = None  # what each feed-forward part of the main stack adds

    @property
    def tokens(self) -> tuple[str, ...]:
        """Tokens that the main stack reads."""
        return self.alignment.tokens

    @property
    def nbytes(self) -> int:
        """Size of the arrays in bytes."""
        return sum(array.nbytes for array in self.arrays().values())

    def arrays(self) -> dict[str, Array]:
        """The recorded arrays by field name."""
        return {f.name: value for f in fields(self) if isinstance(value := getattr(self, f.name), Array)}

    def get(self, name: str) -> Array:
        """The array called ``name``; raises :class:`TraceError` that says how to record it."""
        if name not in _RECORDED_BY:
            raise TraceError(f"a trace has no {name!r}; it can have {', '.join(_RECORDED_BY)}")
        value: Array | None = getattr(self, name)
        if value is None:
            needed = _RECORDED_BY[name].value
            raise TraceError(
                f"the trace holds no {name}: record it with trace(model, texts, record={{{needed!r}}}), "
                f"if the model has such a part; recorded are {', '.join(self.arrays()) or 'none'}"
            )
        return value

    @property
    def attention(self) -> AttentionArray:
        """Self-attention of the main stack; raises :class:`TraceError` if it was not recorded."""
        return self.get("encoder_attention" if self.decoder_attention is None else "decoder_attention")


@dataclass(frozen=True, eq=False, repr=False)
class Trace(Drawn):
    """What a model did with some texts: a sequence of :class:`TextTrace`, in the order of the texts."""

    drawn_by = "trace_view"

    model: str
    kind: Kind
    main: Stack
    texts: tuple[TextTrace, ...]
    recorded: frozenset[Record]
    layers: Mapping[Stack, tuple[int, ...]]  # layer numbers along the layer axis of each stack
    heads: Mapping[Stack, tuple[int, ...]]

    def __len__(self) -> int:
        return len(self.texts)

    def __iter__(self) -> Iterator[TextTrace]:
        return iter(self.texts)

    def __getitem__(self, index: int) -> TextTrace:
        return self.texts[index]

    def __repr__(self) -> str:
        held = ", ".join(sorted(self.recorded))
        return f"<Trace of {self.model}: {counted(len(self), 'text')}, {held}, {self.nbytes / 2**20:.1f} MiB>"

    def to_frame(self) -> pd.DataFrame:
        """One row a token that the main stack read: text, position, token, and the word it is of (if any)."""
        return token_rows([text.alignment for text in self.texts])

    @property
    def nbytes(self) -> int:
        """Size of all arrays in bytes; what :func:`save_trace` writes is some kilobytes more."""
        return sum(text.nbytes for text in self.texts)

    @property
    def truncated(self) -> int:
        """Tokens that did not fit into the model, over all texts."""
        return sum(text.truncated for text in self.texts)


def token_rows(read: Sequence[Alignment]) -> pd.DataFrame:
    """One row a token of the texts: text, position, token, and the word it is of (if any)."""
    rows = [
        (number, position, token, word, None if word is None else alignment.word(word))
        for number, alignment in enumerate(read)
        for position, (token, word) in enumerate(zip(alignment.tokens, alignment.word_ids, strict=True))
    ]
    columns = ["text", "position", "token", "word_number", "word"]
    return pd.DataFrame(rows, columns=columns).astype({"word_number": "Int64"})


_SCHEMA = 1


_ARRAYS, _DESCRIPTION = "arrays.safetensors", "trace.json"


def save_trace(trace: Trace, folder: str | Path, say: Callable[[str], None] = print) -> Path:
    """Write ``trace`` to a new folder, by rename; ``say`` is called with the size before anything is written.

    Raises :class:`TraceError` if the folder exists, or the disk has no room.

    Example:
        ```python
        import workbench

        traced = workbench.trace("novels-encoder", "The keys are here.")
        print(workbench.trace.save_trace(traced, "keys"))
        ```
    """
    folder = Path(folder)
    if folder.exists():
        raise TraceError(f"{folder} exists already; name a new folder")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder.parent).free
    except OSError as error:
        raise TraceError(f"cannot write {folder}: {error.strerror or error}; name another folder") from error
    say(f"writing {trace.nbytes / 2**20:.1f} MiB to {folder}")
    if trace.nbytes > free:
        raise TraceError(
            f"the trace takes {trace.nbytes / 2**20:.1f} MiB, {folder.parent} has {free / 2**20:.1f} MiB free; "
            "record fewer layers or heads: trace(..., layers=[...], heads=[...])"
        )
    arrays = {f"{i}.{name}": array for i, text in enumerate(trace) for name, array in text.arrays().items()}
    with folder_by_rename(folder) as temporary:
        save_file({name: _contiguous(array) for name, array in arrays.items()}, temporary / _ARRAYS)
        description = json.dumps(_describe(trace), ensure_ascii=False)
        (temporary / _DESCRIPTION).write_text(description, encoding="utf-8", newline="\n")
    return folder


def load_trace(folder: str | Path) -> Trace:
    """Read a trace that :func:`save_trace` wrote; raises :class:`TraceError` if it is none.

    Example:
        ```python
        import workbench

        traced = workbench.trace("novels-encoder", "The keys are here.")
        folder = workbench.trace.save_trace(traced, "keys")
        print(workbench.trace.load_trace(folder))
        ```
    """
    folder = Path(folder)
    try:
        description = json.loads((folder / _DESCRIPTION).read_text(encoding="utf-8"))
        arrays = load_file(folder / _ARRAYS)
    except (OSError, ValueError) as error:
        raise TraceError(f"no trace in {folder}: {error}; expected {_ARRAYS} and {_DESCRIPTION}") from error
    if description.get("schema") != _SCHEMA:
        raise TraceError(
            f"{folder} has trace schema {description.get('schema')}; this version reads {_SCHEMA}"
        )
    return Trace(
        model=description["model"],
        kind=Kind(description["kind"]),
        main=Stack(description["main"]),
        texts=tuple(_text(record, arrays, f"{i}.") for i, record in enumerate(description["texts"])),
        recorded=frozenset(map(Record, description["recorded"])),
        layers=_numbers(description["layers"]),
        heads=_numbers(description["heads"]),
    )


def _contiguous(array: Array) -> Array:
    return array if array.flags.c_contiguous else array.copy()


def _describe(trace: Trace) -> dict[str, Any]:
    return {
        "schema": _SCHEMA,
        "model": trace.model,
        "kind": trace.kind,
        "main": trace.main,
        "recorded": sorted(trace.recorded),
        "layers": dict(trace.layers),
        "heads": dict(trace.heads),
        "texts": [
            {
                "alignment": asdict(text.alignment),
                "source": asdict(text.source) if text.source else None,
                "segment_ids": text.segment_ids,
                "cut": text.truncated,
            }
            for text in trace
        ],
    }


def _text(record: dict[str, Any], arrays: dict[str, Array], prefix: str) -> TextTrace:
    own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    return TextTrace(
        alignment=_alignment(record["alignment"]),
        source=_alignment(record["source"]) if record["source"] else None,
        segment_ids=tuple(record["segment_ids"]),
        truncated=record["cut"],
        **own,
    )


def _alignment(record: dict[str, Any]) -> Alignment:
    return Alignment(
        text=record["text"],
        tokens=tuple(record["tokens"]),
        ids=tuple(record["ids"]),
        offsets=tuple((start, end) for start, end in record["offsets"]),
        words=tuple((start, end) for start, end in record["words"]),
        word_ids=tuple(record["word_ids"]),
    )


def _numbers(record: dict[str, list[int]]) -> dict[Stack, tuple[int, ...]]:
    return {Stack(stack): tuple(numbers) for stack, numbers in record.items()}


@dataclass(frozen=True)
class Target:
    """The score whose gradient is taken: the log-probability (natural log) of ``token`` at ``position``.

    ``token`` is a vocabulary id, or a class number for a classifier; by default the likeliest.
    ``position`` counts in the text's own tokens, from the end where negative; by default the last one, or
    the first mask token for a masked model. A causal model's position predicts the token after it.
    """

    token: int | None = None
    position: int | None = None


def check_target(model: LoadedModel, target: Target | None) -> None:
    """Raise :class:`ModelError` if the model has no head, :class:`TraceError` if the token is out of range."""
    if model.kind is Kind.ENCODER:
        raise ModelError(f"{model.name} is an encoder without a head: there is no score to take gradients of")
    if model.kind is Kind.DETECTOR:
        raise ModelError(
            f"{model.name} says which tokens were replaced: it gives no log-probability of a token to take "
            "gradients of; choose a causal, masked, seq2seq or classifier model"
        )
    size = (
        model.config.num_labels
        if model.kind is Kind.CLASSIFIER
        else model.config.get_text_config().vocab_size
    )
    if target is not None and target.token is not None and not 0 <= target.token < size:
        raise TraceError(f"target token {target.token} is out of range: 0 to {size - 1}")


def target_score(
    model: LoadedModel, logits: Tensor, alignments: Sequence[Alignment], target: Target | None
) -> Tensor:
    """Sum over the batch of each text's target score; logits are (B, T, V), or (B, C) of a classifier."""
    chosen = target or Target()
    rows = []
    for row, alignment in enumerate(alignments):
        scores = logits[row] if logits.ndim == 2 else logits[row, _position(model, alignment, chosen)]
        token = int(scores.argmax()) if chosen.token is None else chosen.token
        rows.append(torch.log_softmax(scores.float(), dim=-1)[token])
    return torch.stack(rows).sum()


def _position(model: LoadedModel, alignment: Alignment, target: Target) -> int:
    position = target.position
    if position is None:
        mask = model.mask_id if model.kind is Kind.MASKED else None
        position = alignment.ids.index(mask) if mask in alignment.ids else -1
    if not -len(alignment) <= position < len(alignment):
        raise TraceError(
            f"target position {position} is out of range: the text has {counted(len(alignment), 'token')}"
        )
    return position % len(alignment)
