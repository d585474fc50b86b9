"""Perplexity of long texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from workbench.data.rows import Document
from workbench.data.source import Source
from workbench.estimate import Estimate
from workbench.evaluate._requests import RollingRequest
from workbench.evaluate._task import TaskData, TaskItem
from workbench.evaluate.metrics import PERPLEXITIES, Metric, estimate_all
from workbench.evaluate.tasks.task_types.base import DeclaredTask
from workbench.models import Kind

__all__ = ["Perplexity"]

_SHOWN = 300  # characters of a document kept in its example row


@dataclass(frozen=True, kw_only=True)
class Perplexity(DeclaredTask):
    """exp of the mean loss per token, word and byte over all documents; words and bytes of the original text.

    A document is read in windows of the model's length, of which the last ``stride`` tokens are scored each time
    (all, if no stride is given). Documents are independent, so intervals resample documents.
    """

    source: Source[Document]
    measures: tuple[Metric, ...] = PERPLEXITIES
    kinds: tuple[Kind, ...] = (Kind.CAUSAL,)
    accepts: tuple[str, ...] = ("split", "stride")

    def load(self, data_dir: Path | None) -> TaskData:
        """All documents."""
        data = self.source.read(data_dir, self.split)
        items = tuple(
            TaskItem(
                document.id,
                (RollingRequest(document.text, self.options.stride),),
                {
                    "start": document.text[:_SHOWN],
                    "words": document.words,
                    "bytes": document.bytes,
                },
            )
            for document in data
        )
        return TaskData(items, data.identity)

    def example(self, item: TaskItem, answers: Sequence[Any], tokenizer: Any) -> dict[str, Any]:
        """Log-probability (nats), tokens, words and bytes of one document."""
        (answer,) = answers
        return {**item.fields, "log_probability": float(answer.log_probability), "tokens": answer.tokens}

    def metrics(self, examples: pd.DataFrame, seed: int) -> dict[str, Estimate]:
        """Perplexities per token, word and byte, and bits per byte."""
        return estimate_all(self.measures, examples, seed)
