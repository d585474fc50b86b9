"""What the bundled models reach on held-out data, measured on the weights as they ship, in their cards.

``python -m workbench.training.cards DATA [NAME ...]`` measures the models again, all of them or those named, and writes
their cards anew: the novels' models on the whole of ``DATA/novels/valid.txt``, the classifiers on the tables of
:mod:`workbench.training.classifier_data`, the translators by their own loss (:mod:`workbench.report.translators` has
the rest). Nothing is trained.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workbench.data.corpus_stream import corpus_hash
from workbench.data.grammar.invented import write_pairs
from workbench.data.pairs import pairs_hash, read_pairs
from workbench.errors import DataError
from workbench.estimate import Estimate
from workbench.models import load
from workbench.runs import write_atomically
from workbench.terminal import say
from workbench.training._measure import measure
from workbench.training.blocks import Blocks
from workbench.training.classifier_data import write_tables
from workbench.training.corpora import CorpusPart, token_file
from workbench.training.finetuning.encoding import encode
from workbench.training.finetuning.metrics import compute_metrics
from workbench.training.finetuning.predict import predict
from workbench.training.finetuning.tasks import AnswerKind, FineTask, TaskRows, load_rows, load_task
from workbench.training.objectives import SpecialIds, make_objective, role_of
from workbench.training.pair_corpora import PairRows, TokenPairs
from workbench.training.settings import TrainSettings

__all__ = ["judge", "measure_card", "to_dicts"]

ROWS_PER_BATCH = 16
_TABLES = {
    "sentiment-plain": "sentiment",
    "sentiment-train": "sentiment",
    "nli-train": "nli",
}  # a recipe's task, and the tables it comes from
_HELD_OUT = {  # what a card calls a table
    "sentiment": {"SST-2 dev": "sst2", "synthetic phrases": "synthetic"},
    "nli": {"SNLI": "snli", "MNLI": "mnli", "generated": "generated"},
}


def to_dicts(results: Mapping[str, Estimate]) -> dict[str, Any]:
    """Metrics as a card holds them."""
    return {metric: estimate.to_dict() for metric, estimate in results.items()}


def judge(folder: Path, recipe: Mapping[str, Any], table: Path | TaskRows) -> dict[str, Estimate]:
    """The metrics of a fine-tuned model on a table, or on the rows to validate on, with the columns of its recipe."""
    model = load(str(folder), dtype="float32", device="cpu")
    labels = tuple(model.config.id2label[i] for i in range(model.config.num_labels))
    columns = (recipe["text"], recipe["label"], recipe["pair"])
    task = FineTask(recipe["task"], AnswerKind(recipe["kind"]), *columns, labels=labels)
    rows = load_rows(table, task) if isinstance(table, Path) else table.validation
    features = encode(rows, task, model.tokenizer, recipe["length"])
    answers = predict(model.model, model.tokenizer, features, rows, task, 2 * ROWS_PER_BATCH)
    return compute_metrics(task.kind, answers.predicted, answers.gold)


def measure_card(folder: Path, data: Path) -> dict[str, Any]:
    """The card in a bundled model's folder with its measurements made anew on ``data``.

    Raises :class:`~workbench.errors.DataError` if the data are not there, or others than it was trained with.
    """
    card: dict[str, Any] = json.loads((folder / "card.json").read_text(encoding="utf-8"))
    recipe = card["recipe"]
    if "objective" in recipe:
        settings = TrainSettings.from_dict(recipe)
        of_pairs = settings.data.target_column is not None
        found = _of_pairs(folder, settings) if of_pairs else _of_novels(folder, settings, data)
        return {**card, "results": to_dicts(found)}
    with tempfile.TemporaryDirectory() as place:
        tables = Path(place)
        kind = _TABLES[recipe["task"]]
        write_tables(kind, data, tables)
        rows = _validation(recipe, tables)
        if rows.sha256 != card["data"][recipe["task"]]["sha256"]:
            raise DataError(f"{data} gives other rows than {folder.name} was trained with; use the same data")
        card["results"] = to_dicts(judge(folder, recipe, rows))
        card["held_out"] = {
            name: to_dicts(judge(folder, recipe, tables / f"{kind}-{table}.jsonl"))
            for name, table in _HELD_OUT[kind].items()
        }
    return card


def _validation(recipe: Mapping[str, Any], tables: Path) -> TaskRows:
    held = recipe.get("validation")
    return load_task(
        str(tables / f"{recipe['task']}.jsonl"),
        text=recipe["text"],
        pair=recipe["pair"],
        label=recipe["label"],
        rationale=recipe.get("rationale"),
        validation=None if held is None else tables / held,
    )


def _of_novels(folder: Path, settings: TrainSettings, data: Path) -> dict[str, Estimate]:
    model, file = (
        load(str(folder), dtype="float32", device="cpu"),
        data / "novels" / str(settings.data.validation),
    )
    if not file.is_file():
        raise DataError(f"no {file}; name the folder of the data sets")
    role, length = role_of(settings.objective.name), settings.data.length or model.max_length
    objective = make_objective(settings.objective, SpecialIds.of(model.tokenizer), length)
    part = CorpusPart(str(file), corpus_hash(file), settings.data.text_column)
    blocks = Blocks(token_file(part, model.tokenizer, role), objective.window, shuffle=False, static=True)
    of_text = objective.auto == "AutoModelForCausalLM"
    return measure(
        model.model, objective, blocks, ROWS_PER_BATCH, tokenizer=model.tokenizer if of_text else None
    )


def _of_pairs(folder: Path, settings: TrainSettings) -> dict[str, Estimate]:
    """Of a translator into the invented language, whose pairs are made again."""
    model, data = load(str(folder), dtype="float32", device="cpu"), settings.data
    columns = data.text_column, str(data.target_column)
    with tempfile.TemporaryDirectory() as place:
        write_pairs(Path(place))
        file = Path(place) / str(data.validation)
        pairs = TokenPairs.of(read_pairs(file, *columns), model.tokenizer, pairs_hash(file, *columns))
    length = data.length or model.max_length
    objective = make_objective(settings.objective, SpecialIds.of(model.tokenizer), length)
    return measure(model.model, objective, PairRows(pairs, length, shuffle=False), ROWS_PER_BATCH)


def _main() -> None:
    parser = argparse.ArgumentParser(description="Measure the bundled models again and write their cards.")
    parser.add_argument("data", type=Path)
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    root = Path(__file__).parents[1] / "models" / "bundled"
    for name in given.names or sorted(p.parent.name for p in root.glob("*/card.json")):
        card = measure_card(root / name, given.data)
        write_atomically(root / name / "card.json", (json.dumps(card, indent=1) + "\n").encode())
        for table, metrics in {"": card["results"], **card["held_out"]}.items():
            values = ", ".join(f"{metric} {Estimate.from_dict(values)}" for metric, values in metrics.items())
            say(" ".join(filter(None, (name, table, values))))


if __name__ == "__main__":
    _main()
