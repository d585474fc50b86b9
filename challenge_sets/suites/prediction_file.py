"""Predictions of another system, from a file."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from challenge_sets.suites.expectations import Prediction
from challenge_sets.suites.predict import Example
from challenge_sets.suites.tests import Tests
from workbench.data.files import read_jsonl, text_field
from workbench.data.tables import class_label
from workbench.errors import DataError

__all__ = ["PredictionFile"]


@dataclass(frozen=True)
class PredictionFile:
    """Predictions of any system: JSON lines with ``id``, ``label`` and, if it has them, ``probabilities``.

    The lines go in the order of ``workbench check --suite NAME --export FILE``, with its ids.
    """

    path: Path
    labels: tuple[str, ...]
    rows: tuple[tuple[str, Prediction], ...] = field(repr=False)
    sha256: str = ""

    @classmethod
    def read(cls, path: Path, suites: Sequence[Tests]) -> PredictionFile:
        """Raises :class:`~workbench.errors.DataError` naming the line for labels that the suites lack."""
        labels = tuple(dict.fromkeys(label for suite in suites for label in suite.labels))
        rows = []
        for number, record in read_jsonl(path):
            where = f"{path}, line {number}"
            rows.append((text_field(record, "id", where), _read_prediction(record, labels, where)))
        return cls(path, labels, tuple(rows), hashlib.sha256(path.read_bytes()).hexdigest())

    @property
    def policy(self) -> str:
        """Where the predictions come from."""
        return f"predictions in {self.path.name}"

    def members(self, example: Example, label: str) -> str:
        """The example's own text."""
        return " ".join(example.texts)

    def check(self, examples: Sequence[Example]) -> None:
        """Raise :class:`~workbench.errors.DataError` unless the lines are the examples, one by one, in order."""
        for number, (example, (given, _)) in enumerate(zip(examples, self.rows, strict=False), 1):
            if example.id != given:
                raise DataError(
                    f"{self.path}, line {number} has id {given!r}, but example {number} is {example.id!r}; "
                    "keep the order and ids of the exported texts (--export)"
                )
        if len(self.rows) != len(examples):
            raise DataError(
                f"{self.path} has {len(self.rows)} predictions for {len(examples)} texts; "
                "it needs one line for each exported text (--export)"
            )

    def predict(self, examples: Sequence[Example]) -> list[Prediction]:
        """The predictions under the examples' ids."""
        known = dict(self.rows)
        return [known[example.id] for example in examples]


def _read_prediction(record: dict[str, Any], labels: Sequence[str], where: str) -> Prediction:
    label = class_label(text_field(record, "label", where), where)
    probabilities = record.get("probabilities", {label: 1.0})
    if not isinstance(probabilities, dict) or not all(
        isinstance(p, (int, float)) and 0 <= p <= 1 for p in probabilities.values()
    ):
        raise DataError(
            f"{where}: probabilities must map labels to numbers from 0 to 1, is {probabilities!r:.60}"
        )
    for name in (label, *probabilities):
        if name not in labels:
            raise DataError(f"{where}: unknown label {name!r}; the suite's labels: {', '.join(labels)}")
    return Prediction(label, {name: float(p) for name, p in probabilities.items()})
