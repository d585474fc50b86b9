"""A task of lm-eval as a task of ours: its prompts, filters and metrics; our engine, intervals and run folder."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from lm_eval.tasks import TaskManager

from workbench.data import DataIdentity, content_hash
from workbench.errors import DataError, TaskError, did_you_mean
from workbench.estimate import Estimate
from workbench.evaluate._options import TaskOptions
from workbench.evaluate._requests import AnyRequest, GenerationRequest, Request, RollingRequest
from workbench.evaluate._task import TaskData, TaskItem
from workbench.models import Kind
from workbench.shapes import Array
from workbench.statistics import bootstrap, mean_estimate

__all__ = ["PREFIX", "HarnessTask", "harness_task"]

PREFIX = "harness:"
_FEWSHOT_SEED = 1234  # lm-eval's own default, so that the examples are the same
_RESAMPLES = 200  # of metrics that are no mean: lm-eval computes them on Python lists


@dataclass(frozen=True)
class HarnessTask:
    """``harness:NAME``, where NAME is a task, group or tag of lm-eval, or of the YAML files in ``--data-dir``.

    Of a group, items come from its tasks in turn, so that ``--limit`` takes as many of each. A metric is stored under
    lm-eval's name; of a group, also per task, as ``task/metric``. In chat format the prompt, a task's description and
    examples included, is one user message; lm-eval puts a description into the system message.
    """

    name: str
    options: TaskOptions = field(default_factory=TaskOptions)
    version: int = 1
    kinds: tuple[Kind, ...] = (Kind.CAUSAL,)
    accepts: tuple[str, ...] = ("shots", "chat", "system")
    _instances: dict[str, list[Any]] = field(default_factory=dict, compare=False, repr=False)
    _tasks: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def about(self) -> str:
        """One line."""
        return f"lm-eval's {self.name.removeprefix(PREFIX)}"

    def load(self, data_dir: Path | None) -> TaskData:
        """Build the task's requests; ``data_dir`` may hold lm-eval YAML files of the user's own."""
        self._tasks.update(_load(self.name.removeprefix(PREFIX), data_dir))
        columns, texts = [], []
        for name, task in self._tasks.items():
            _configure(name, task, self.options)
            by_document: dict[int, list[Any]] = {}
            for instance in sorted(task.instances, key=lambda i: (i.doc_id, i.idx)):
                by_document.setdefault(instance.doc_id, []).append(instance)
            texts += [json.dumps(group[0].doc, sort_keys=True, default=str) for group in by_document.values()]
            columns.append([self._item(name, number, group) for number, group in by_document.items()])
        items = [item for row in zip_longest(*columns) for item in row if item is not None]
        identity = DataIdentity(self.name, "lm-eval", content_hash(texts), len(items))
        return TaskData(tuple(items), identity)

    def _item(self, task: str, number: int, instances: list[Any]) -> TaskItem:
        identifier = f"{task}-{number}"
        self._instances[identifier] = instances
        requests = tuple(request for instance in instances for request in _requests(instance))
        return TaskItem(identifier, requests, {"subtask": task, "question": _question(instances[0])})

    def example(self, item: TaskItem, answers: Sequence[Any], tokenizer: Any) -> dict[str, Any]:
        """One column for each of lm-eval's metrics of this document."""
        instances, task = self._instances[item.id], self._tasks[str(item.fields["subtask"])]
        rest = iter(answers)
        for instance in instances:
            instance.resps = [_response(instance, next(rest)) for _ in range(instance.repeats)]
            instance.filtered_resps = {}
        for chosen in task._filters:
            chosen.apply(instances)
        row: dict[str, Any] = dict(item.fields)
        for number, key in enumerate(instances[0].filtered_resps):
            found = task.process_results(instances[0].doc, [i.filtered_resps[key] for i in instances])
            for metric, value in found.items():
                row[metric if number == 0 else f"{metric},{key}"] = _stored(value)
        return row

    def metrics(self, examples: pd.DataFrame, seed: int) -> dict[str, Estimate]:
        """lm-eval's metrics with our intervals; of a group, over all its items and per task."""
        tasks = [name for name in self._tasks if (examples["subtask"] == name).any()]
        found: dict[str, Estimate] = {}
        for metric in self._metric_names(examples):
            parts = {name: _values(examples[examples["subtask"] == name], metric) for name in tasks}
            parts = {name: values for name, values in parts.items() if values}
            if not parts:
                continue
            aggregate = self._tasks[next(iter(parts))].aggregation()[metric.split(",")[0]]
            better = self._tasks[next(iter(parts))].higher_is_better().get(metric.split(",")[0])
            joined = [value for values in parts.values() for value in values]
            found[metric] = _estimate(joined, aggregate, better, seed)
            if len(parts) > 1:
                found |= {f"{n}/{metric}": _estimate(v, aggregate, better, seed) for n, v in parts.items()}
        return found

    def _metric_names(self, examples: pd.DataFrame) -> Iterator[str]:
        known = {name for task in self._tasks.values() for name in task.aggregation()}
        for column in examples:
            if str(column).split(",")[0] in known:
                yield str(column)


@cache
def harness_task(name: str) -> HarnessTask:
    """The task called ``harness:NAME``; the same object each time, since it keeps what it has loaded."""
    return HarnessTask(name)


def _load(name: str, data_dir: Path | None) -> Mapping[str, Any]:
    manager = _manager(name, data_dir)
    if name not in manager.task_index:
        raise TaskError(f"lm-eval has no task {name!r}; {did_you_mean(name, list(manager.all_tasks))}")
    try:
        return dict(manager.load([name])["tasks"])
    except Exception as error:  # lm-eval and datasets raise many kinds
        raise DataError(f"lm-eval cannot load {name!r}: {' '.join(str(error).split())[:200]}") from error


def _manager(name: str, data_dir: Path | None) -> Any:
    """lm-eval's index of tasks; of the user's files alone if they have the task, as its own are thousands."""
    if data_dir is None:
        return TaskManager()
    own = TaskManager(include_path=str(data_dir), include_defaults=False)
    return own if name in own.task_index else TaskManager(include_path=str(data_dir))


def _configure(name: str, task: Any, options: TaskOptions) -> None:
    """Number and seed of few-shot examples, as lm-eval sets them, and the requests."""
    if task.OUTPUT_TYPE not in (
        "loglikelihood",
        "multiple_choice",
        "loglikelihood_rolling",
        "generate_until",
    ):
        raise TaskError(f"{name}: output type {task.OUTPUT_TYPE!r} is not supported")
    if getattr(task, "UNSAFE_CODE", False):
        raise TaskError(f"{name} runs code that a model wrote; run it with lm_eval itself, in a sandbox")
    if options.chat and (task.get_config("gen_prefix") or "acc_mutual_info" in task._metric_fn_list):
        raise TaskError(
            f"{name} begins replies itself, or scores them without a prompt, which no chat message is; run it with "
            "python -m workbench.evaluate.harness --apply_chat_template"
        )
    stated = task.get_config("num_fewshot")
    if options.shots is not None and stated != 0:
        task.set_config(key="num_fewshot", value=options.shots)
    elif stated is None:
        task.set_config(key="num_fewshot", value=0)
    task.set_fewshot_seed(seed=_FEWSHOT_SEED)
    task.build_all_requests(rank=0, world_size=1)


def _requests(instance: Any) -> list[AnyRequest]:
    """What one of lm-eval's requests is of the engine, once for each repeat."""
    if instance.request_type == "loglikelihood":
        return [Request(*instance.args)] * instance.repeats
    if instance.request_type == "loglikelihood_rolling":
        return [RollingRequest(instance.args[0])] * instance.repeats
    text, options = instance.args
    until = options.get("until") or []
    sampled = bool(options.get("do_sample")) and float(options.get("temperature", 1.0)) > 0
    limit = options.get("max_gen_toks") or options.get("max_new_tokens") or options.get("max_tokens") or 256
    return [
        GenerationRequest(
            text,
            stop=(until,) if isinstance(until, str) else tuple(until),
            max_tokens=int(limit),
            temperature=float(options.get("temperature", 1.0)) if sampled else 0.0,
            top_p=float(options.get("top_p", 1.0)),
            number=number if sampled else 0,
        )
        for number in range(instance.repeats)
    ]


def _response(instance: Any, answer: Any) -> Any:
    """Our answer in lm-eval's form."""
    if instance.request_type == "loglikelihood":
        return answer.log_probability, answer.is_greedy
    return answer.log_probability if instance.request_type == "loglikelihood_rolling" else answer.text


def _question(instance: Any) -> str:
    return str(instance.args[0])


def _stored(value: Any) -> Any:
    """Numbers as they are; what else lm-eval aggregates as JSON."""
    if isinstance(value, bool | int | float | np.number | np.bool_):
        return float(value)
    return json.dumps(value, default=str)


def _values(rows: pd.DataFrame, metric: str) -> list[Any]:
    found = rows[metric].dropna().tolist()
    return [_tuples(json.loads(value)) if isinstance(value, str) else value for value in found]


def _tuples(value: Any) -> Any:
    return tuple(_tuples(v) for v in value) if isinstance(value, list) else value


def _estimate(values: list[Any], aggregate: Any, better: bool | None, seed: int) -> Estimate:
    mean = all(isinstance(value, float) for value in values) and aggregate(values) == float(np.mean(values))
    higher = better is not False
    if mean:
        return mean_estimate(values, seed=seed, higher_is_better=higher)

    def of_rows(rows: Array, axis: int = -1) -> Any:
        return np.apply_along_axis(lambda r: float(aggregate([values[int(i)] for i in r])), axis, rows)

    return bootstrap(
        np.arange(len(values)), of_rows, seed=seed, resamples=_RESAMPLES, higher_is_better=higher
    )
