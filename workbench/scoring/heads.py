"""Rows through a classification head in batches by token budget: every reader of heads goes through here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from workbench.models import LoadedModel
from workbench.models.batching import HeadOutput, HeadRow, head_outputs, padding_of
from workbench.scoring._stream import Stream, collect

__all__ = ["head_scores", "stream_heads"]


def stream_heads(
    model: LoadedModel,
    rows: Sequence[HeadRow],
    *,
    done: Set[int] = frozenset(),
    batch_tokens: str | int = "auto",
    progress: bool = False,
) -> Iterator[list[tuple[int, HeadOutput]]]:
    """Yield ``(place in rows, what the head gives that row alone)`` per batch; batches that are ``done`` are left out.

    See :func:`workbench.models.batching.head_outputs`.
    """
    padding_of(model)  # found before several batches run side by side
    yield from Stream(model, head_outputs, batch_tokens, progress)(rows, done)


def head_scores(
    model: LoadedModel, rows: Sequence[HeadRow], batch_tokens: str | int = "auto"
) -> list[HeadOutput]:
    """All of :func:`stream_heads`, in the order of ``rows``."""
    return collect(stream_heads(model, rows, batch_tokens=batch_tokens), len(rows))
