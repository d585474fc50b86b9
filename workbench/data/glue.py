"""GLUE (Wang et al. 2019) in its official layout: one folder a task, tab-separated, a quote is text; and SNLI."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from workbench.data.rows import TextPair
from workbench.data.source import Hub, Record, Source, field_of, label_of
from workbench.data.tables import number_of, read_table

__all__ = ["GLUE", "SNLI", "SNLI_LABELS", "GlueLayout", "glue_source"]

_ENTAILMENT = ("entailment", "not_entailment")
_THREE_WAY = ("entailment", "neutral", "contradiction")
_UNLABELLED = {"test.tsv", "test_matched.tsv", "test_mismatched.tsv", "diagnostic.tsv"}


@dataclass(frozen=True, kw_only=True)
class GlueLayout:
    """Folder and columns of a task; ``labels`` in the hub's order, empty for scores.

    ``submission`` is the file of its answers in the official archive (default: named as the folder), with a line for
    each of ``test_rows``.
    """

    name: str
    folder: str
    text: tuple[str, ...]
    pair: tuple[str, ...] = ()
    gold: tuple[str, ...] = ("label",)
    labels: tuple[str, ...] = ("0", "1")
    index: str = "index"
    submission: str = ""
    test_rows: int = 0
    hub: str = ""
    hub_splits: tuple[tuple[str, str], ...] = ()
    train: tuple[str, ...] = ("train.tsv",)
    validation: tuple[str, ...] = ("dev.tsv",)
    test: tuple[str, ...] = ("test.tsv",)
    header: tuple[str, ...] | None = None  # of training and validation files without one

    def __post_init__(self) -> None:
        if not self.submission:
            object.__setattr__(self, "submission", f"{self.folder}.tsv")


GLUE: dict[str, GlueLayout] = {
    layout.name: layout
    for layout in (
        GlueLayout(
            name="cola",
            folder="CoLA",
            text=("sentence",),
            test_rows=1063,
            header=("source", "label", "star", "sentence"),
        ),
        GlueLayout(
            name="sst2",
            folder="SST-2",
            text=("sentence",),
            test_rows=1821,
            train=("train.tsv", "train_first20000.tsv"),
        ),
        GlueLayout(
            name="mrpc",
            folder="MRPC",
            text=("#1 String", "sentence1"),
            pair=("#2 String", "sentence2"),
            gold=("Quality", "label"),
            test_rows=1725,
        ),
        GlueLayout(
            name="qqp",
            folder="QQP",
            text=("question1",),
            pair=("question2",),
            gold=("is_duplicate", "label"),
            index="id",
            test_rows=390965,
        ),
        GlueLayout(
            name="stsb",
            folder="STS-B",
            text=("sentence1",),
            pair=("sentence2",),
            gold=("score", "label"),
            labels=(),
            test_rows=1379,
        ),
        GlueLayout(
            name="mnli",
            folder="MNLI",
            text=("sentence1", "premise"),
            pair=("sentence2", "hypothesis"),
            gold=("gold_label", "label"),
            labels=_THREE_WAY,
            submission="MNLI-m.tsv",
            test_rows=9796,
            train=("train.tsv", "train.jsonl"),
            validation=("dev_matched.tsv", "dev_matched.jsonl"),
            test=("test_matched.tsv",),
            hub_splits=(("validation", "validation_matched"), ("test", "test_matched")),
        ),
        GlueLayout(
            name="mnli_mismatched",
            folder="MNLI",
            text=("sentence1", "premise"),
            pair=("sentence2", "hypothesis"),
            gold=("gold_label", "label"),
            labels=_THREE_WAY,
            submission="MNLI-mm.tsv",
            test_rows=9847,
            hub="mnli",
            train=("train.tsv", "train.jsonl"),
            validation=("dev_mismatched.tsv", "dev_mismatched.jsonl"),
            test=("test_mismatched.tsv",),
            hub_splits=(("validation", "validation_mismatched"), ("test", "test_mismatched")),
        ),
        GlueLayout(
            name="qnli",
            folder="QNLI",
            text=("question",),
            pair=("sentence",),
            labels=_ENTAILMENT,
            test_rows=5463,
        ),
        GlueLayout(
            name="rte",
            folder="RTE",
            text=("sentence1",),
            pair=("sentence2",),
            labels=_ENTAILMENT,
            test_rows=3000,
        ),
        GlueLayout(
            name="wnli",
            folder="WNLI",
            text=("sentence1",),
            pair=("sentence2",),
            test_rows=146,
        ),
        GlueLayout(
            name="ax",
            folder="AX",
            text=("Premise", "sentence1", "premise"),
            pair=("Hypothesis", "sentence2", "hypothesis"),
            gold=("Label", "label"),
            labels=_THREE_WAY,
            test_rows=1104,
            train=(),
            validation=("diagnostic-full.tsv",),
            test=("diagnostic.tsv", "diagnostic-full.tsv"),
            hub_splits=(("validation", "test"),),
        ),
    )
}


def glue_source(name: str) -> Source[TextPair]:
    """Where ``glue/NAME`` is read from: ``--data-dir`` may be the GLUE folder, the task's own, or the one above."""
    layout = GLUE[name]
    folders = (layout.folder, "diagnostic") if name == "ax" else (layout.folder,)
    names = {
        split: tuple(f"{prefix}{file}" for prefix in _prefixes(folders) for file in files)
        for split, files in (
            ("train", layout.train),
            ("validation", layout.validation),
            ("test", layout.test),
        )
        if files
    }
    return Source(
        name=f"glue/{name}",
        files=names,
        parse=partial(_parse, layout),
        hub=Hub("nyu-mll/glue", layout.hub or name, dict(layout.hub_splits)),
        records=partial(_records, layout),
    )


def _prefixes(folders: tuple[str, ...]) -> list[str]:
    return [f"{above}{folder}/" for above in ("", "glue/", "glue_data/") for folder in folders] + [""]


def _records(layout: GlueLayout, path: Path) -> Iterable[tuple[str, Record]]:
    """CoLA has a header in its test file only."""
    return read_table(path, None if path.name == "test.tsv" else layout.header)


def _parse(layout: GlueLayout, record: Record, where: str, name: str) -> Iterable[TextPair]:
    text = field_of(record, where, *layout.text)
    pair = field_of(record, where, *layout.pair) if layout.pair else None
    number = name.rsplit("-", 1)[1].lstrip("0") or "0"
    index = str(record.get(layout.index, record.get("idx", number)))
    gold = None if _unlabelled(record, where) else _gold(layout, record, where)
    return [TextPair(name, text, pair, gold, index, cluster=_cluster(layout, record))]


def _unlabelled(record: Record, where: str) -> bool:
    """Official test files have no label; the hub writes -1."""
    return Path(where.rsplit(", ", 1)[0]).name in _UNLABELLED or record.get("label") == -1


def _gold(layout: GlueLayout, record: Record, where: str) -> float:
    value = field_of(record, where, *layout.gold)
    if layout.labels:
        return label_of(value, layout.labels, where)
    return number_of(value, where, "score")


def _cluster(layout: GlueLayout, record: Record) -> str | None:
    """Pairs of QNLI and MNLI that share their first text."""
    if layout.name.startswith("mnli") and "promptID" in record:
        return f"prompt-{record['promptID']}"
    return None


SNLI_LABELS = ("entailment", "neutral", "contradiction")


def _parse_snli(record: Record, where: str, row: str) -> list[TextPair]:
    label = field_of(record, where, "gold_label", "label")
    if label in ("-", -1):  # annotators did not agree; the benchmark leaves these out
        return []
    premise = field_of(record, where, "sentence1", "premise")
    pair = field_of(record, where, "sentence2", "hypothesis")
    gold = label_of(label, SNLI_LABELS, where)
    return [TextPair(row, premise, pair, gold, cluster=f"premise {premise}")]


_SNLI_FOLDERS = ("", "snli/", "snli_1.0/")
SNLI: Source[TextPair] = Source(
    name="snli",
    files={
        "train": tuple(f"{p}snli_1.0_train.jsonl" for p in _SNLI_FOLDERS),
        "validation": tuple(
            f"{p}{n}" for p in _SNLI_FOLDERS for n in ("snli_1.0_dev.jsonl", "dev_first3000.jsonl")
        ),
        "test": tuple(f"{p}snli_1.0_test.jsonl" for p in _SNLI_FOLDERS),
    },
    parse=_parse_snli,
    hub=Hub("stanfordnlp/snli"),
)
