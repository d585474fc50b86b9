"""SNLI (Bowman et al. 2015): the official JSONL, or premise, hypothesis and label."""

from __future__ import annotations

from workbench.data.rows import TextPair
from workbench.data.source import Hub, Record, Source, field_of, label_of

__all__ = ["SNLI", "SNLI_LABELS"]

SNLI_LABELS = ("entailment", "neutral", "contradiction")


def _parse(record: Record, where: str, row: str) -> list[TextPair]:
    label = field_of(record, where, "gold_label", "label")
    if label in ("-", -1):  # annotators did not agree; the benchmark leaves these out
        return []
    premise = field_of(record, where, "sentence1", "premise")
    pair = field_of(record, where, "sentence2", "hypothesis")
    gold = label_of(label, SNLI_LABELS, where)
    return [TextPair(row, premise, pair, gold, cluster=f"premise {premise}")]


_PLACES = ("", "snli/", "snli_1.0/")
SNLI: Source[TextPair] = Source(
    name="snli",
    files={
        "train": tuple(f"{p}snli_1.0_train.jsonl" for p in _PLACES),
        "validation": tuple(
            f"{p}{n}" for p in _PLACES for n in ("snli_1.0_dev.jsonl", "dev_first3000.jsonl")
        ),
        "test": tuple(f"{p}snli_1.0_test.jsonl" for p in _PLACES),
    },
    parse=_parse,
    hub=Hub("stanfordnlp/snli"),
)
