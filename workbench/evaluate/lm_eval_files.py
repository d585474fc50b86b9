"""A stored run in the layout that lm-eval 0.4 writes: ``results_DATE.json`` and ``samples_TASK_DATE.jsonl``."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workbench.errors import RunError
from workbench.estimate import Estimate
from workbench.evaluate.metric_columns import metric_columns
from workbench.evaluate.tasks import TASKS
from workbench.runs import Run, reads_runs, write_atomically
from workbench.statistics import mean_measure

__all__ = ["EXPORTED", "lm_eval_results", "lm_eval_samples", "write_lm_eval"]

# Ours that are lm-eval's under another name, by the same definition.
_NAMES = {
    "accuracy": "acc",
    "accuracy_norm": "acc_norm",
    "accuracy_bytes": "acc_bytes",
    "matthews": "mcc",
}
_FILTER = "none"
EXPORTED = "lm-eval"  # the folder in a run


@reads_runs
def write_lm_eval(run: Run, folder: Path | str) -> Path:
    """Write the run's results and samples below ``folder/MODEL/``, as lm-eval does with ``--output_path``.

    Returns the results' file. Raises :class:`~workbench.errors.RunError` for a run without results, or of another verb
    than ``evaluate`` and ``check``.

    Example:
        ```python
        import workbench
        from workbench.evaluate.lm_eval_files import write_lm_eval

        run = workbench.evaluate("novels-decoder", tasks="lambada_sample", limit=5, doctor=False)
        print(write_lm_eval(run, "as_lm_eval"))
        ```
    """
    if run.record.verb not in ("evaluate", "check"):
        raise RunError(
            f"{run.path} was made by workbench {run.record.verb}; lm-eval's layout is of evaluations"
        )
    if not run.results:
        raise RunError(f"no results yet in {run.path}; finish the run first, with --resume")
    samples = lm_eval_samples(run)
    results = {**lm_eval_results(run), "task_hashes": {task: _task_hash(of) for task, of in samples.items()}}
    place = Path(folder) / _sanitized(run.record.model["name"])
    place.mkdir(parents=True, exist_ok=True)
    date = run.record.created[:19].replace(":", "-")
    for task, rows in samples.items():
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        write_atomically(place / f"samples_{_sanitized(task)}_{date}.jsonl", lines.encode())
    path = place / f"results_{date}.json"
    write_atomically(path, json.dumps(results, indent=2, ensure_ascii=False).encode())
    return path


def lm_eval_results(run: Run) -> dict[str, Any]:
    """What lm-eval's results file holds: ``results``, ``configs``, ``versions``, ``n-shot``, ``n-samples``, ….

    Metrics have lm-eval's names where it has them (``acc``, ``acc_norm``, ``mcc``), and the filter ``none``. What a run
    does not know (the tokenizer's special tokens, bootstrap iterations) is ``None``.
    """
    record, tasks = run.record, _tasks(run)
    versions = record.recipe.get("versions") or dict.fromkeys(tasks, record.recipe.get("version"))
    groups = {
        group: {_name(m): e.higher_is_better for m, e in of.items()} for group, of in run.results.items()
    }
    shots = {group: _shots(run, group) for group in run.results}
    return {
        "results": {group: _metrics(group, metrics) for group, metrics in run.results.items()},
        "group_subtasks": {group: [] for group in run.results},
        "configs": {
            task: _configuration(run, task, versions.get(task), shots.get(task, 0)) for task in tasks
        },
        "versions": {group: versions.get(_owner(group, tasks)) for group in run.results},
        "n-shot": shots,
        "higher_is_better": groups,
        "n-samples": {
            task: {"original": data.get("rows"), "effective": len(rows)}
            for (task, rows), data in zip(tasks.items(), _data(run, tasks), strict=True)
        },
        "config": _execution(run),
        "git_hash": record.git_revision,
        "date": datetime.fromisoformat(record.created).timestamp(),
        "transformers_version": record.packages.get("transformers"),
        "lm_eval_version": None,
        "workbench_version": record.packages.get("transformer-workbench"),
        **dict.fromkeys(("tokenizer_pad_token", "tokenizer_eos_token", "tokenizer_bos_token")),
        **dict.fromkeys(("eot_token_id", "max_length")),
        "model_source": "workbench",
        "model_name": record.model["name"],
        "model_name_sanitized": _sanitized(record.model["name"]),
        "system_instruction": record.recipe.get("system"),
        **dict.fromkeys(("system_instruction_sha", "chat_template", "chat_template_sha")),
        "fewshot_as_multiturn": None,
        "start_time": None,
        "end_time": None,
        "total_evaluation_time_seconds": str(run.throughput.get("seconds", "")),
    }


def lm_eval_samples(run: Run) -> dict[str, list[dict[str, Any]]]:
    """By task a sample an item: ``doc``, ``target``, ``arguments``, ``resps``, hashes, and its value of each metric."""
    return {task: list(_samples(rows, run.results.get(task, {}))) for task, rows in _tasks(run).items()}


def _tasks(run: Run) -> dict[str, pd.DataFrame]:
    """The example rows of each task, without the columns that only other tasks have."""
    rows = run.examples()
    if "task" not in rows:
        return {next(iter(run.record.data)): rows}
    return {
        str(task): of.dropna(axis=1, how="all").reset_index(drop=True).infer_objects()
        for task, of in rows.groupby("task", sort=False)
    }


def _data(run: Run, tasks: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [run.record.data.get(task, {}) for task in tasks]


def _owner(group: str, tasks: Mapping[str, Any]) -> str:
    """The task of which ``group`` is a part: the longest that its name begins with."""
    return max(
        (task for task in tasks if group == task or group.startswith(f"{task}/")), key=len, default=group
    )


def _shots(run: Run, task: str) -> int:
    given = run.record.recipe.get("shots")
    return int(given if given is not None else getattr(TASKS.get(task), "shots", 0) if task in TASKS else 0)


def _name(metric: str) -> str:
    return _NAMES.get(metric, metric)


def _metrics(group: str, metrics: Mapping[str, Estimate]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": group,
        "alias": group,
        "sample_len": max((e.n for e in metrics.values()), default=0),
    }
    for metric, estimate in metrics.items():
        error = estimate.standard_error
        found[f"{_name(metric)},{_FILTER}"] = estimate.value
        found[f"{_name(metric)}_stderr,{_FILTER}"] = "N/A" if error is None or np.isnan(error) else error
    return found


def _configuration(run: Run, task: str, version: Any, shots: int) -> dict[str, Any]:
    return {
        "task": task,
        "dataset_path": run.record.data.get(task, {}).get("source"),
        "num_fewshot": shots,
        "metric_list": [
            {"metric": _name(metric), "higher_is_better": e.higher_is_better}
            for metric, e in run.results.get(task, {}).items()
        ],
        "metadata": {"version": version, "sha256": run.record.data.get(task, {}).get("sha256")},
    }


def _execution(run: Run) -> dict[str, Any]:
    model, recipe = run.record.model, run.record.recipe
    return {
        "model": "workbench",
        "model_args": {name: model.get(name) for name in ("name", "implementation", "first_token")},
        "model_num_parameters": model.get("parameters"),
        "model_dtype": model.get("dtype"),
        "model_revision": model.get("revision"),
        "model_sha": model.get("content_hash"),
        "batch_size": None,
        "batch_sizes": [],
        "device": run.record.device.get("device"),
        "use_cache": None,
        "limit": recipe.get("limit"),
        "bootstrap_iters": None,
        "gen_kwargs": None,
        **dict.fromkeys(("random_seed", "numpy_seed", "torch_seed", "fewshot_seed"), recipe.get("seed")),
    }


def _samples(rows: pd.DataFrame, metrics: Mapping[str, Estimate]) -> Iterator[dict[str, Any]]:
    values = {_name(m): found for m, e in metrics.items() if (found := _item_values(rows, m, e)) is not None}
    for number, row in enumerate(rows.to_dict("records")):
        doc = {str(key): _plain(value) for key, value in row.items()}
        arguments, answers = _requests_and_answers(doc)
        target = str(doc.get("target", doc.get("gold", doc.get("good", ""))))
        yield {
            "doc_id": number,
            "doc": doc,
            "target": target,
            "arguments": {
                f"gen_args_{i}": {f"arg_{j}": part for j, part in enumerate(request)}
                for i, request in enumerate(arguments)
            },
            "resps": [[answer] for answer in answers],
            "filtered_resps": answers,
            "filter": _FILTER,
            "metrics": list(values),
            "doc_hash": _hash(json.dumps(doc, indent=2, ensure_ascii=False)),
            "prompt_hash": _hash(arguments[0][0]),
            "target_hash": _hash(target),
            **{name: of[number] for name, of in values.items()},
        }


def _item_values(rows: pd.DataFrame, metric: str, estimate: Estimate) -> list[float] | None:
    """A metric's value of each item, where the metric is the mean of such values; log-probabilities of perplexity."""
    if metric == "perplexity" and "log_probability" in rows:
        return [float(value) for value in rows["log_probability"]]
    for kept, values, measure in metric_columns(rows, metric):
        whole = measure is mean_measure and len(kept) == len(rows)
        if whole and np.isclose(values.mean(), estimate.value):
            return [float(value) for value in values[:, 0]]
    return None


def _requests_and_answers(doc: Mapping[str, Any]) -> tuple[list[tuple[Any, ...]], list[Any]]:
    """What the model was asked, a tuple a request, and what it answered: log-probabilities as text, or generated text.

    Whether an answer was the greedy one is known of single continuations only.
    """
    text = str(doc.get("context", doc.get("text", "")))
    if "choices" in doc and "log_probabilities" in doc:
        requests = [(text, f" {choice}") for choice in doc["choices"]]
        return requests, [[str(value), str(None)] for value in doc["log_probabilities"]]
    if "good_score" in doc:
        return [("", doc["good"]), ("", doc["bad"])], [
            [str(doc[f"{side}_score"]), str(None)] for side in ("good", "bad")
        ]
    if "log_probability" in doc and "target" in doc:
        before = text.removesuffix(str(doc["target"]))
        return [(before, doc["target"])], [[str(doc["log_probability"]), str(doc.get("greedy"))]]
    return [(text, {})], [str(doc.get("written", doc.get("predicted", "")))]


def _plain(value: Any) -> Any:
    """A cell as JSON has it."""
    if isinstance(value, np.ndarray):
        return [_plain(one) for one in value.tolist()]
    if isinstance(value, np.generic):
        return _plain(value.item())
    return None if isinstance(value, float) and np.isnan(value) else value


def _task_hash(samples: Sequence[Mapping[str, Any]]) -> str:
    return _hash("".join(f"{s['doc_hash']}{s['prompt_hash']}{s['target_hash']}" for s in samples))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _sanitized(name: str) -> str:
    """As lm-eval names folders and files."""
    return re.sub(r"[\"<>:/\|\\?\*\[\]]+", "__", name)
