"""Train a head on a task's train split, then evaluate it as any other model; with several seeds, several times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from importlib import resources
from pathlib import Path
from typing import Any

import pandas as pd

from workbench.data.rows import Choices, Question, TaggedWords, TextPair
from workbench.data.source import MissingData
from workbench.errors import ConfigError, TaskError, did_you_mean
from workbench.estimate import Estimate
from workbench.evaluate._evaluate import evaluate
from workbench.evaluate._names import expand, find_task
from workbench.evaluate._settings import EvaluateSettings
from workbench.evaluate._summaries import summarize
from workbench.evaluate._task import Task
from workbench.evaluate.tasks.task_types import (
    AnsweringTask,
    MultipleChoice,
    SpanPairs,
    Tagging,
    TextClassification,
    TextScore,
)
from workbench.models import load
from workbench.models.device import resolve_device
from workbench.runs import Run, RunFolder, RunRecord, default_root
from workbench.statistics import over_seeds
from workbench.training.finetuning import AnswerKind, FineSettings, FineTask, Method, TaskRows, finetune
from workbench.training.origin import model_identity
from workbench.yaml_reader import parse, read_values

__all__ = ["Finetuned", "Recipe", "evaluate_finetuned", "fine_rows", "read_recipe", "trained_as"]

_KNOWN = tuple(field.name for field in fields(FineSettings) if field.name != "seeds")


@dataclass(frozen=True)
class Recipe:
    """Settings for all tasks, and those of single ones that differ."""

    name: str
    default: Mapping[str, Any]
    tasks: Mapping[str, Mapping[str, Any]]

    def settings(self, task: str, seed: int) -> FineSettings:
        """How ``task`` is trained with ``seed``."""
        values = {**self.default, **self.tasks.get(task, {})}
        return FineSettings(**{**values, "method": Method(values.get("method", "full")), "seeds": (seed,)})


def read_recipe(path: Path | None = None) -> Recipe:
    """A recipe from YAML; the package's own without a path. Raises :class:`~workbench.errors.ConfigError`."""
    if path is None:
        text = (resources.files("workbench.evaluate") / "recipes" / "glue.yaml").read_text(encoding="utf-8")
        content, name = parse(text, "glue.yaml"), "glue.yaml"
    else:
        content, name = read_values(Path(path)), str(path)
    if not isinstance(content, dict) or content.get("version") != 1:
        raise ConfigError(f"{name} must start with 'version: 1' and hold 'default' and 'tasks'")
    default, tasks = _mapping(content, "default", name), _mapping(content, "tasks", name)
    for where, values in (("default", default), *tasks.items()):
        _check(values, f"{name}, {where}")
    return Recipe(name, default, tasks)


def _mapping(content: Mapping[str, Any], key: str, name: str) -> Mapping[str, Any]:
    value = content.get(key) or {}
    if not isinstance(value, dict):
        raise ConfigError(f"{name}: {key} is {value!r:.40}; allowed: names with values")
    return value


def _check(values: Any, where: str) -> None:
    if not isinstance(values, dict):
        raise ConfigError(f"{where} is {values!r:.40}; allowed: settings such as {{epochs: 3}}")
    for key in values:
        if key not in _KNOWN:
            raise ConfigError(f"{where}: unknown setting {key!r}; {did_you_mean(str(key), list(_KNOWN))}")
    try:
        FineSettings(**values)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error


# Sets without a train split of their own, and whose model answers them.
_TRAINED_AS = {
    "glue/mnli_mismatched": "glue/mnli",
    "glue/ax": "glue/mnli",
    "superglue/axb": "superglue/rte",
    "superglue/axg": "superglue/rte",
}


def trained_as(name: str) -> str:
    """The task that a model for ``name`` is trained on."""
    return _TRAINED_AS.get(name, name)


def fine_rows(task: Any, data_dir: Path | None, limit: int | None = None) -> TaskRows:
    """Train rows (the first ``limit``) and validation rows of ``task``.

    Raises :class:`~workbench.errors.TaskError` for tasks that no head learns, :class:`~workbench.errors.DataError` if
    the train file is missing.
    """
    if isinstance(task, TextClassification):
        return _classified(task, data_dir, limit)
    if isinstance(task, Tagging):
        return _tagged(task, data_dir, limit)
    if type(task) is AnsweringTask:  # a head cannot learn yet that there is no answer
        return _answered(task, data_dir, limit)
    if type(task) is MultipleChoice:
        return _chosen(task, data_dir, limit)
    raise TaskError(f"task {task.name} cannot be learned by a head; leave out --finetune")


def _splits(task: Any, data_dir: Path | None, limit: int | None) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    train = task.source.read(data_dir, "train").items[:limit]
    held = task.source.read(data_dir, task.split).items
    return train, held


def _classified(task: TextClassification, data_dir: Path | None, limit: int | None) -> TaskRows:
    train, held = _splits(task, data_dir, limit)
    is_score = isinstance(task, TextScore)

    def row(pair: TextPair) -> dict[str, Any]:
        gold = pair.gold or 0
        label = f"{gold:g}" if is_score else task.labels[int(gold)]
        texts = {"text": pair.text} if pair.pair is None else {"text": pair.text, "pair": pair.pair}
        return {**texts, "label": label}

    has_pair = train[0].pair is not None
    fine = FineTask(
        task.name,
        AnswerKind.NUMBER if is_score else AnswerKind.CLASS,
        "text",
        "label",
        "pair" if has_pair else None,
        () if is_score else task.labels,
        metric="spearman" if is_score else "accuracy",
    )
    return TaskRows(
        fine, [row(r) for r in train if r.gold is not None], [row(r) for r in held if r.gold is not None]
    )


def _tagged(task: Tagging, data_dir: Path | None, limit: int | None) -> TaskRows:
    train, held = _splits(task, data_dir, limit)

    def row(words: TaggedWords) -> dict[str, Any]:
        return {"tokens": list(words.words), "labels": list(words.tags)}

    tags = tuple(sorted({tag for sentence in (*train, *held) for tag in sentence.tags}))
    fine = FineTask(task.name, AnswerKind.TOKENS, "tokens", "labels", labels=tags, metric="span_f1")
    return TaskRows(fine, [row(r) for r in train], [row(r) for r in held])


def _answered(task: AnsweringTask, data_dir: Path | None, limit: int | None) -> TaskRows:
    train, held = _splits(task, data_dir, limit)

    def row(question: Question) -> dict[str, Any]:
        return {"question": question.question, "context": question.context, "answer": question.answers[0]}

    fine = FineTask(task.name, AnswerKind.SPAN, "question", "answer", "context", metric="f1")
    return TaskRows(fine, [row(r) for r in train], [row(r) for r in held])


def _chosen(task: MultipleChoice, data_dir: Path | None, limit: int | None) -> TaskRows:
    train, held = _splits(task, data_dir, limit)

    def row(choices: Choices) -> dict[str, Any]:
        return {"query": task.prompt(choices), "choices": list(choices.choices), "gold": choices.gold[0]}

    fine = FineTask(task.name, AnswerKind.CHOICE, "query", "gold", "choices")
    return TaskRows(fine, [row(r) for r in train if r.gold], [row(r) for r in held if r.gold])


@dataclass(frozen=True, kw_only=True)
class Finetuned:
    """What to train: the recipe, the seeds, the most rows to train on, and what is called after each run."""

    recipe: Recipe | None = None
    seeds: tuple[int, ...] = (0,)
    train_limit: int | None = None
    tell: Callable[[str, int, Run], None] = lambda task, seed, run: None


@dataclass(frozen=True)
class _Place:
    """Where models and runs go, and on what they are made."""

    root: Path
    device: str
    doctor: bool
    progress: bool


def evaluate_finetuned(
    model: str,
    settings: EvaluateSettings,
    training: Finetuned | None = None,
    *,
    out: Path | None = None,
    device: str = "auto",
    doctor: bool = True,
    progress: bool = False,
) -> Run:
    """Train ``model`` on each task of ``settings`` with each seed, evaluate all of them, and join the results.

    Each seed's model and run stay in ``out``; a model that is there already, from the same recipe and rows, is not
    trained again. What is returned is the only run, or one that joins all: means over seeds whose intervals hold
    the items' and the seeds' error, and the benchmark's average. Members of a group without a train file are left out.
    """
    training = training or Finetuned()
    place = _Place(out or default_root(), device, doctor, progress)
    runs: dict[str, list[Run]] = {}
    missing: MissingData | None = None
    for name in expand(settings.tasks):
        try:
            runs[name] = [_one(model, settings, name, training, seed, place) for seed in training.seeds]
        except MissingData as error:
            if name in settings.tasks:
                raise
            missing = error
    if not runs and missing is not None:
        raise missing
    if sum(map(len, runs.values())) == 1:
        return next(iter(runs.values()))[0]
    return _joined(model, settings, training, runs, place)


def _one(
    model: str, settings: EvaluateSettings, name: str, training: Finetuned, seed: int, place: _Place
) -> Run:
    """One task, one seed: its run."""
    task = find_task(name, settings.options)
    alone = replace(settings, tasks=(name,))
    if isinstance(task, SpanPairs):
        run = _read_out(model, alone, task, seed, place)
    else:
        data = {name: task.load(settings.folder)}
        folder = _trained(model, settings, name, training, seed, place)
        fitted = load(str(folder), device=place.device, dtype="float32")
        run = evaluate(fitted, alone, data=data, out=place.root, doctor=place.doctor, progress=place.progress)
    training.tell(name, seed, run)
    return run


def _read_out(model: str, settings: EvaluateSettings, task: SpanPairs, seed: int, place: _Place) -> Run:
    loaded = load(model, device=place.device, dtype="float32")
    fitted: Task = task.fitted(loaded, settings.folder, seed)
    return evaluate(
        loaded,
        settings,
        tasks=[fitted],
        out=place.root,
        doctor=place.doctor,
        progress=place.progress,
    )


def _trained(
    model: str, settings: EvaluateSettings, name: str, training: Finetuned, seed: int, place: _Place
) -> Path:
    """The folder of the trained model."""
    source = trained_as(name)
    rows = fine_rows(find_task(source), settings.folder, training.train_limit)
    fine_settings = (training.recipe or read_recipe()).settings(source, seed)
    stem = f"{Path(model).name}-{source}-seed{seed}".replace("/", "-")
    number = 1
    while (folder := place.root / (stem if number == 1 else f"{stem}-{number}")).exists():
        found = _unchanged(folder, model, fine_settings, rows)
        if found is not None and found.complete:
            return folder
        if found is not None:
            break
        number += 1
    finetune(model, rows, folder, fine_settings, resume=True, device=place.device, progress=place.progress)
    return folder


def _unchanged(folder: Path, model: str, settings: FineSettings, rows: TaskRows) -> Run | None:
    """The run in the folder, if it trains this model by this recipe on these rows."""
    try:
        run = Run.open(folder.resolve())
    except Exception:  # whatever stands there, it is not ours
        return None
    recipe, data = run.record.recipe, run.record.data.get(rows.task.name, {})
    usual = FineSettings().to_dict()  # of settings that the folder is older than
    same = all(recipe.get(key, usual[key]) == value for key, value in settings.to_dict().items())
    same = same and data.get("sha256") == rows.sha256 and run.record.model == model_identity(model)
    return run if same and run.record.verb == "finetune" else None


def _joined(
    model: str,
    settings: EvaluateSettings,
    training: Finetuned,
    runs: Mapping[str, Sequence[Run]],
    place: _Place,
) -> Run:
    first = next(iter(runs.values()))[0].record
    recipe = {**settings.to_dict(), "finetune": (training.recipe or read_recipe()).name}
    record = RunRecord.new(
        "evaluate",
        recipe={**recipe, "seeds": list(training.seeds), "train_limit": training.train_limit},
        model={**first.model, "name": f"{model} (fine-tuned)"},
        data={name: found[0].record.data[name] for name, found in runs.items()},
        seeds={"bootstrap": settings.seed, "training": list(training.seeds)},
        device=str(resolve_device(place.device)),
        label="-".join([Path(model).name, *settings.tasks[:3], "finetuned"]).replace("/", "-"),
    )
    folder = RunFolder.create(place.root, record)
    results: dict[str, dict[str, Estimate]] = {}
    sources: dict[str, Any] = {}
    for name, found in runs.items():
        results[name], sources[name] = _over_seeds(name, found)
        folder.append(_mean_rows(name, found))
    results |= summarize(settings.tasks, results)
    seconds = sum(run.throughput.get("seconds", 0.0) for found in runs.values() for run in found)
    tokens = sum(run.throughput.get("tokens", 0) for found in runs.values() for run in found)
    throughput = {"tokens": tokens, "seconds": seconds, "tokens_per_second": tokens / max(seconds, 1e-9)}
    left_out = [name for name in expand(settings.tasks) if name not in runs]
    notes = {"seeds": sources, "left_out_for_want_of_data": left_out}
    folder.finish(results, throughput, notes)
    return Run.open(folder.path)


def _over_seeds(name: str, runs: Sequence[Run]) -> tuple[dict[str, Estimate], dict[str, Any]]:
    """Each metric's estimate over the seeds, and where its error comes from."""
    if len(runs) == 1:
        return dict(runs[0].results[name]), {"runs": [str(runs[0].path)]}
    estimates, sources = {}, {}
    for metric in runs[0].results[name]:
        found = over_seeds([run.results[name][metric] for run in runs])
        estimates[metric] = found.total
        sources[metric] = {
            "values": list(found.values),
            "item_error": found.item_error,
            "seed_error": found.seed_error,
        }
    return estimates, {**sources, "runs": [str(run.path) for run in runs]}


def _mean_rows(name: str, runs: Sequence[Run]) -> list[dict[str, Any]]:
    """The first seed's rows; ``correct`` is the share of seeds that were right."""
    frames = [run.examples() for run in runs]
    rows = frames[0].copy()
    if "correct" in rows:
        right = pd.concat([frame.set_index("id")["correct"].astype(float) for frame in frames], axis=1)
        rows["correct"] = right.loc[rows["id"]].mean(axis=1).to_numpy()
    return [{str(k): v for k, v in row.items()} for row in rows.to_dict("records")]
