"""Rows of a data set on the hub, or in a folder that the datasets package reads."""

from __future__ import annotations

from typing import Any

from workbench.data.tables import Row
from workbench.errors import DataError, needs_extra

__all__ = ["PREFIX", "read_hub"]

PREFIX = "hub:"
_VALIDATION = ("validation", "dev", "validation_matched", "test")


def read_hub(name: str, label: str) -> tuple[list[Row], list[Row]]:
    """Training and validation rows of ``owner/name`` or ``owner/name@configuration``; the second may be empty.

    Numbers that stand for named classes in the column ``label`` become the names. Raises
    :class:`~workbench.errors.DataError` if the set cannot be read or has no training split.
    """
    try:
        from datasets import load_dataset
    except ImportError:
        raise DataError(needs_extra("a set on the hub", "datasets", "hub")) from None
    path, _, configuration = name.removeprefix(PREFIX).partition("@")
    try:
        splits = load_dataset(path, configuration or None)
    except Exception as error:  # its readers raise dozens of kinds
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise DataError(f"cannot read {name}: {reason}") from error
    if "train" not in splits:
        raise DataError(f"{name} has no split 'train'; it has {', '.join(splits)}")
    held = next((split for split in _VALIDATION if split in splits), None)
    return _rows(splits["train"], label), [] if held is None else _rows(splits[held], label)


def _rows(split: Any, label: str) -> list[Row]:
    feature = split.features.get(label)
    names = getattr(getattr(feature, "feature", feature), "names", None)
    rows: list[Row] = [dict(row) for row in split]
    if names:
        for row in rows:
            row[label] = _named(row[label], names)
    return rows


def _named(value: Any, names: list[str]) -> Any:
    if isinstance(value, list):
        return [_named(v, names) for v in value]
    return names[value] if value is not None and 0 <= value < len(names) else None
