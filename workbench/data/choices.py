"""Multiple-choice sets in their official formats, and in llm-foundry's (query, choices, gold)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from workbench.data._dataset import DataIdentity, Dataset, content_hash
from workbench.data.files import read_lines
from workbench.data.rows import Choices
from workbench.data.source import Files, Hub, MissingData, Record, Source, field_of, label_of
from workbench.data.tables import read_table
from workbench.errors import DataError

__all__ = ["CHOICE_SOURCES", "mmlu_split", "read_mmlu", "truthfulqa_source"]

_FOLDER = "multiple_choice/"


def _split_files(**names: tuple[str, ...]) -> Files:
    """Each name by itself, or in a folder called multiple_choice."""
    return {split: tuple(f"{p}{n}" for p in ("", _FOLDER) for n in found) for split, found in names.items()}


def _gold(value: Any, count: int, where: str) -> tuple[int, ...]:
    if value in (None, "", -1):
        return ()
    return (label_of(value, tuple(map(str, range(count))), where),)


def _foundry(record: Record, where: str, row: str, drop: str = "") -> Choices:
    choices = tuple(map(str, field_of(record, where, "choices")))
    question = str(field_of(record, where, "query")).removeprefix(drop).strip()
    return Choices(row, question, choices, _gold(record.get("gold"), len(choices), where))


def _arc(record: Record, where: str, row: str) -> list[Choices]:
    """Also OpenBookQA. Answer keys are letters, or digits in some of ARC's questions."""
    if "query" in record:
        return [_foundry(record, where, row, "Question: ")]
    question = field_of(record, where, "question", "question_stem")
    if isinstance(question, dict):  # official: the choices are inside
        stem, options = field_of(question, where, "stem"), field_of(question, where, "choices")
        letters, texts = [o["label"] for o in options], [o["text"] for o in options]
    else:
        stem, options = question, field_of(record, where, "choices")
        letters, texts = list(options["label"]), list(options["text"])
    key = str(record.get("answerKey", "")).strip()
    gold = (label_of(key, tuple(letters), where),) if key else ()
    return [Choices(row, stem, tuple(texts), gold)]


def _piqa(record: Record, where: str, row: str) -> list[Choices]:
    if "query" in record:
        return [_foundry(record, where, row, "Question: ")]
    choices = tuple(field_of(record, where, name) for name in ("sol1", "sol2"))
    return [Choices(row, field_of(record, where, "goal"), choices, _gold(record.get("label"), 2, where))]


def _piqa_records(path: Path) -> Iterator[tuple[str, Record]]:
    """Official PIQA has its labels in a file of their own: valid.jsonl and valid-labels.lst."""
    labels_path = path.with_name(f"{path.stem}-labels.lst")
    records = list(read_table(path))
    if not labels_path.is_file():
        yield from records
        return
    labels = read_lines(labels_path)
    if len(labels) != len(records):
        raise DataError(f"{labels_path} has {len(labels)} labels for the {len(records)} rows of {path.name}")
    for (where, record), label in zip(records, labels, strict=True):
        yield where, {**record, "label": label.strip()}


def _winogrande(record: Record, where: str, row: str) -> list[Choices]:
    if "context_options" in record:
        contexts = tuple(field_of(record, where, "context_options"))
        end = str(field_of(record, where, "continuation"))
        return [Choices(row, end, contexts, _gold(record.get("gold"), len(contexts), where), contexts)]
    sentence = str(field_of(record, where, "sentence"))
    before, gap, after = sentence.partition("_")
    if not gap:
        raise DataError(f"{where}: the sentence has no gap _: {sentence!r:.60}")
    options = tuple(field_of(record, where, name) for name in ("option1", "option2"))
    answer = str(record.get("answer", ""))
    gold = (label_of(answer, ("1", "2"), where),) if answer else ()
    cluster = (
        str(record["qID"]).rsplit("-", 1)[0] if "qID" in record else None
    )  # twins share all but one word
    contexts = tuple(before + option for option in options)
    return [Choices(row, after.strip(), options, gold, contexts, cluster)]


def _clean(text: str) -> str:
    """Without the brackets that WikiHow pages left in HellaSwag."""
    text = text.strip().replace(" [title]", ". ")
    return re.sub(r"\[.*?\]", "", text).replace("  ", " ")


def _hellaswag(record: Record, where: str, row: str) -> list[Choices]:
    if "query" in record:
        return [_foundry(record, where, row)]
    activity = field_of(record, where, "activity_label")
    context = f"{field_of(record, where, 'ctx_a')} {str(record.get('ctx_b', '')).capitalize()}"
    endings = tuple(map(_clean, field_of(record, where, "endings")))
    gold = _gold(record.get("label"), len(endings), where)
    return [Choices(row, _clean(f"{activity}: {context}"), endings, gold, cluster=record.get("source_id"))]


def _swag(record: Record, where: str, row: str) -> list[Choices]:
    endings = tuple(field_of(record, where, f"ending{k}") for k in range(4))
    gold = _gold(record.get("label"), 4, where)
    return [
        Choices(row, field_of(record, where, "startphrase"), endings, gold, cluster=record.get("video-id"))
    ]


def _source(
    name: str,
    parse: Callable[[Record, str, str], Iterable[Choices]],
    files: Files,
    hub: Hub,
    records: Callable[[Path], Iterable[tuple[str, Record]]] | None = None,
) -> Source[Choices]:
    return Source(name=name, files=files, parse=parse, hub=hub, records=records)


def _arc_files(name: str, official: str) -> Files:
    return _split_files(
        train=(f"{official}-Train.jsonl",),
        validation=(f"{official}-Dev.jsonl",),
        test=(f"{name}.jsonl", f"{official}-Test.jsonl"),
    )


CHOICE_SOURCES: dict[str, Source[Choices]] = {
    source.name: source
    for source in (
        _source("arc_easy", _arc, _arc_files("arc_easy", "ARC-Easy"), Hub("allenai/ai2_arc", "ARC-Easy")),
        _source(
            "arc_challenge",
            _arc,
            _arc_files("arc_challenge", "ARC-Challenge"),
            Hub("allenai/ai2_arc", "ARC-Challenge"),
        ),
        _source(
            "openbookqa",
            _arc,
            _split_files(
                train=("train.jsonl",), validation=("dev.jsonl",), test=("openbookqa.jsonl", "test.jsonl")
            ),
            Hub("allenai/openbookqa", "main"),
        ),
        _source(
            "piqa",
            _piqa,
            _split_files(train=("train.jsonl",), validation=("piqa.jsonl", "valid.jsonl")),
            Hub("baber/piqa"),
            _piqa_records,
        ),
        _source(
            "winogrande",
            _winogrande,
            _split_files(
                train=("train_xl.jsonl", "train.jsonl"), validation=("winogrande.jsonl", "dev.jsonl")
            ),
            Hub("allenai/winogrande", "winogrande_xl"),
        ),
        _source(
            "hellaswag",
            _hellaswag,
            _split_files(
                train=("hellaswag_train.jsonl",), validation=("hellaswag.jsonl", "hellaswag_val.jsonl")
            ),
            Hub("Rowan/hellaswag"),
        ),
        _source(
            "swag",
            _swag,
            _split_files(train=("swag/train.csv", "train.csv"), validation=("swag/val.csv", "val.csv")),
            Hub("allenai/swag", "regular"),
        ),
    )
}


def truthfulqa_source(variant: str) -> Source[Choices]:
    """``mc1`` has one true answer, ``mc2`` any number of them."""

    def parse(record: Record, where: str, row: str) -> list[Choices]:
        question = field_of(record, where, "question")
        choices, labels = _targets(field_of(record, where, f"{variant}_targets"))
        gold = tuple(i for i, label in enumerate(labels) if label)
        if not gold or (variant == "mc1" and len(gold) != 1):
            raise DataError(f"{where}: {len(gold)} true answers in {variant}_targets")
        return [Choices(row, question, choices, gold)]

    files = {"validation": ("mc_task.json", "truthfulqa/mc_task.json", "data/mc_task.json")}
    return Source(
        name=f"truthfulqa_{variant}",
        files=files,
        parse=parse,
        hub=Hub("truthfulqa/truthful_qa", "multiple_choice"),
    )


def _targets(value: dict[str, Any]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    if "choices" in value and isinstance(value["choices"], list):  # the hub's form
        return tuple(value["choices"]), tuple(map(int, value["labels"]))
    return tuple(value), tuple(map(int, value.values()))


_LETTERS = ("A", "B", "C", "D")
_FOLDERS = {"train": "dev", "validation": "val", "test": "test"}


def mmlu_split(data_dir: Path | None) -> str:
    """The split to evaluate: test, or what the folder has instead."""
    if data_dir is None:
        return "test"
    found = [s for s in ("test", "validation", "train") if _paths(data_dir, s)]
    if not found:
        raise MissingData(
            f"mmlu: no test/*_test.csv, val/*_val.csv or dev/*_dev.csv in {data_dir}; "
            "unpack the official archive there"
        )
    return found[0]


def read_mmlu(data_dir: Path | None, split: str) -> Dataset[Choices]:
    """All subjects of a split in the order of their names; ``subject`` is the file's name without its ending."""
    if data_dir is None:
        return _HUB.read(None, split)
    paths = _paths(data_dir, split)
    if not paths:
        folder = _FOLDERS[split]
        raise MissingData(f"mmlu: no {folder}/*_{folder}.csv in {data_dir}")
    rows = [row for path in paths for row in _subject(path, _FOLDERS[split])]
    identity = DataIdentity("mmlu", str(paths[0].parent), content_hash(map(repr, rows)), len(rows))
    return Dataset(tuple(rows), identity)


def _paths(data_dir: Path, split: str) -> list[Path]:
    ending = _FOLDERS[split]
    for folder in (data_dir, data_dir / "mmlu", data_dir / "data"):
        found = sorted((folder / ending).glob(f"*_{ending}.csv")) if (folder / ending).is_dir() else []
        if found:
            return found
    return []


def _subject(path: Path, ending: str) -> Iterable[Choices]:
    subject = path.stem.removesuffix(f"_{ending}")
    for number, (where, row) in enumerate(read_table(path, ("question", *_LETTERS, "answer"))):
        gold = label_of(row["answer"], _LETTERS, where)
        choices = tuple(row[letter] for letter in _LETTERS)
        name = f"mmlu-{subject}-{number:04d}"
        yield Choices(name, row["question"].strip(), choices, (gold,), subject=subject)


def _parse(record: Record, where: str, row: str) -> list[Choices]:
    gold = label_of(field_of(record, where, "answer"), _LETTERS, where)
    choices = tuple(map(str, field_of(record, where, "choices")))
    return [Choices(row, str(record["question"]).strip(), choices, (gold,), subject=str(record["subject"]))]


_HUB: Source[Choices] = Source(
    name="mmlu",
    files={"train": ("dev",), "validation": ("val",), "test": ("test",)},
    parse=_parse,
    hub=Hub("cais/mmlu", "all", {"train": "dev"}),
)
