"""The one reader of tables, as every verb uses it: what a cell holds is text, and a row without a label is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from challenge_sets.readers._rows import one_of, table_rows
from probes.tasks import load_task as load_probe
from workbench.analysis.faithfulness_run import SaliencySettings, read_texts
from workbench.data.rows import Question
from workbench.data.source import Source
from workbench.data.tables import class_label, read_rows, read_table
from workbench.errors import DataError
from workbench.training.finetuning.tasks import load_task

# Characters at which str.splitlines() ends a line although no file format does.
SEPARATORS = "\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e"
FORMATS = ("jsonl", "csv", "tsv", "parquet", "json")


def write(folder: Path, ending: str, rows: list[dict[str, object]]) -> Path:
    """The rows as a table, each format by its own simplest rule."""
    path = folder / f"table.{ending}"
    if ending == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
        return path
    if ending == "json":
        text = json.dumps(rows, ensure_ascii=False)
    elif ending == "jsonl":
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    else:
        mark = {"csv": ",", "tsv": "\t"}[ending]
        text = "".join(mark.join(map(str, cells)) + "\n" for cells in [rows[0], *(r.values() for r in rows)])
    path.write_bytes(text.encode("utf-8"))
    return path


def _source(path: Path) -> list[str]:
    def parse(record, where, row):
        return [Question(row, "", record["text"], (record["label"],))]

    read = Source(name="x", files={"validation": (path.name,)}, parse=parse).read(path.parent)
    return [item.question for item in read.items]


READERS: dict[str, Callable[[Path], list[str]]] = {
    "evaluate": _source,
    "attribute": lambda path: [t.text for t in read_texts(SaliencySettings(data=str(path)))],
    "finetune": lambda path: [row["text"] for row in load_task(str(path), validation=path).train],
    "check": lambda path: [row["text"] for row in table_rows(path, ("text", "label"))],
}


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("verb", READERS)
def test_other_line_separators_are_text(tmp_path: Path, verb: str, ending: str) -> None:
    texts = [f"one {SEPARATORS} end", 'a " quote', "third", "fourth"]
    if ending == "csv":
        texts[1] = "no quote"
    rows: list[dict[str, object]] = [{"text": text, "label": f"l{n % 2}"} for n, text in enumerate(texts)]
    assert READERS[verb](write(tmp_path, ending, rows)) == texts


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("verb", READERS)
def test_a_cell_of_200_000_characters_is_read(tmp_path: Path, verb: str, ending: str) -> None:
    long = "word " * 40_000
    rows: list[dict[str, object]] = [{"text": long, "label": "a"}, {"text": "b", "label": "b"}]
    assert READERS[verb](write(tmp_path, ending, rows))[0] == long


@pytest.mark.parametrize("ending", FORMATS)
def test_probes_read_the_same_tables(tmp_path: Path, ending: str) -> None:
    rows: list[dict[str, object]] = [
        {"text": f"one{SEPARATORS}two", "label": "a "},
        {"text": "three", "label": "b"},
    ]
    probed = load_probe("table", write(tmp_path, ending, rows))
    assert probed.labels == ("a", "b")
    assert " ".join(probed.sentences[0].forms) == " ".join(f"one{SEPARATORS}two".split())


def test_a_quoted_cell_keeps_its_line_breaks_and_errors_name_the_line_where_a_row_begins(
    tmp_path: Path,
) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b'text,label\r\n"a\r\n\r\nb",x\r\n\r\n"c",y\r\nd\r\n')
    rows = read_table(path)
    assert next(rows) == (f"{path}, line 2", {"text": "a\r\n\r\nb", "label": "x"})
    assert next(rows) == (f"{path}, line 6", {"text": "c", "label": "y"})
    with pytest.raises(DataError, match=r"line 7 has 1 cells; expected 2 \(text, label\)"):
        next(rows)


def test_a_quote_that_never_ends_is_an_error_not_one_long_cell(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('text,label\n"a,x\nb,y\nc,z\n')
    with pytest.raises(DataError, match="line 2 is not valid CSV"):
        read_rows(path)


@pytest.mark.parametrize("value", [-1, "-1", -1.0, float("nan"), "NaN", "", " ", None])
def test_what_marks_a_missing_label_is_no_class(value: object) -> None:
    with pytest.raises(DataError, match=r"row 7: the label is .*remove them, or name the class"):
        class_label(value, "row 7")


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize("missing", [-1, float("nan")])
def test_finetuning_names_the_row_without_a_label(tmp_path: Path, ending: str, missing: float) -> None:
    """Rows are named by their place in the file, before some are held out at random."""
    labels = [0.0, 1.0] * 6
    labels[4] = missing
    rows: list[dict[str, object]] = [{"text": f"t{n}", "label": label} for n, label in enumerate(labels)]
    path = write(tmp_path, ending, rows)
    with pytest.raises(DataError, match=r"table, training row 5: the label is '?(-1|nan)"):
        load_task(str(path))
    if missing != missing:  # -1 is a score as any other
        with pytest.raises(DataError, match=r"training row 5: label is '?nan'?, not a finite number"):
            load_task(str(path), kind="number")


@pytest.mark.parametrize("ending", FORMATS)
def test_white_space_around_a_label_makes_no_second_class(tmp_path: Path, ending: str) -> None:
    labels = ["good", "bad", "good ", " bad"] * 3
    rows: list[dict[str, object]] = [{"text": "t", "label": label} for label in labels]
    loaded = load_task(str(write(tmp_path, ending, rows)))
    assert loaded.task.labels == ("bad", "good")
    assert {row["label"] for row in [*loaded.train, *loaded.validation]} == {"bad", "good"}


@pytest.mark.parametrize("missing", [-1, None])
def test_a_class_to_explain_is_named_and_no_missing_label(tmp_path: Path, missing: object) -> None:
    rows: list[dict[str, object]] = [{"text": "a b", "label": "good "}, {"text": "c d", "label": missing}]
    path = write(tmp_path, "jsonl", rows)
    settings = SaliencySettings(data=str(path), label_column="label", limit=1)
    assert read_texts(settings)[0].target == "good"
    with pytest.raises(DataError, match="row 2: the label is"):
        read_texts(SaliencySettings(data=str(path), label_column="label"))


def test_white_space_around_labels_of_challenge_sets_is_no_other_label() -> None:
    assert one_of("entailment ", ("entailment", "non-entailment"), "line 2", "gold_label") == "entailment"
