"""The bridge beside lm-eval's own ``hf`` model: same accuracies, throughput, few-shot prefixes read once.

python benchmarks/evaluation.py [--items 200] [--tasks local_arc_easy,...] [--repeats 3] [--cpu-time] [--json FILE]

The tasks are those of benchmarks/lm_eval_tasks over the files of --data-dir. Both arms get the same requests, built by
lm-eval. Its batch size is the better of 1 and 8 on a sample.
"""

from __future__ import annotations

import logging
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from _frame import Result, alternate, machine, parser, rate_result, report

import workbench

MODEL = "smollm2-135m"
PLAIN = ("local_arc_easy", "local_piqa", "local_winogrande", "local_openbookqa_style", "local_lambada")
FEW_SHOT = ("local_mmlu_style_astronomy", "local_mmlu_style_world_religions")
PEER_BATCH_SIZES = (1, 8)
SAMPLE = 12  # items on which the peer's batch size is chosen
AT_FLOAT32, AT_DEFAULT, WITH_SHOTS = 1.2, 3.0, 3.0

Answers = list[tuple[float, bool]]


def load_task(name: str, data_dir: Path, items: int) -> Any:
    """One of our local task files, reading ``data_dir``, with the requests of its first items."""
    from lm_eval.tasks import TaskManager

    folder = Path(__file__).resolve().parent / "lm_eval_tasks"
    with tempfile.TemporaryDirectory() as copies:
        for file in folder.glob("*.yaml"):
            text = file.read_text().replace("../shared/data", str(data_dir.resolve()))
            (Path(copies) / file.name).write_text(text)
        task = TaskManager(include_path=copies, include_defaults=False).load([name])["tasks"][name]
    if task.get_config("num_fewshot") is None:
        task.set_config(key="num_fewshot", value=0)
    task.set_fewshot_seed(seed=1234)
    task.build_all_requests(limit=items, rank=0, world_size=1)
    return task


def peer_model(dtype: str, batch_size: int) -> Any:
    """lm-eval's own model class over the same weights."""
    from lm_eval.models.huggingface import HFLM

    model = workbench.load(MODEL, dtype=dtype)
    return HFLM(pretrained=model.model, tokenizer=model.tokenizer, batch_size=batch_size)


def our_model(dtype: str) -> Any:
    from workbench.evaluate.harness import WorkbenchLM

    return WorkbenchLM(MODEL, dtype=dtype)


def asker(lm: Any, task: Any, items: int | None = None) -> Callable[[], Answers]:
    chosen = [i for i in task.instances if items is None or i.doc_id < items]
    return lambda: lm.loglikelihood(chosen, disable_tqdm=True)


def accuracy(task: Any, answers: Answers) -> float:
    """lm-eval's own metric of these answers."""
    by_document: dict[int, list[Any]] = defaultdict(list)
    for instance, answer in zip(task.instances, answers, strict=True):
        instance.resps, instance.filtered_resps = [answer], {}
        by_document[instance.doc_id].append(instance)
    for chosen in task._filters:
        chosen.apply(task.instances)
    found = []
    for instances in by_document.values():
        first = next(iter(instances[0].filtered_resps))
        responses = [i.filtered_resps[first] for i in sorted(instances, key=lambda i: i.idx)]
        found.append(float(task.process_results(instances[0].doc, responses)["acc"]))
    return statistics.fmean(found)


def best_batch_size(task: Any, clock: Callable[[], float]) -> int:
    seconds = {}
    for size in PEER_BATCH_SIZES:
        run = asker(peer_model("float32", size), task, SAMPLE)
        started = clock()
        run()
        seconds[size] = clock() - started
    return min(seconds, key=lambda size: seconds[size])


def measure(
    task: Any, name: str, goals: dict[str, float], repeats: int, clock: Callable[[], float]
) -> list[Result]:
    """Accuracy at float32, and items a second at each precision of ``goals`` against lm-eval at float32."""
    size = best_batch_size(task, clock)
    peer = asker(peer_model("float32", size), task)
    kept: dict[str, Answers] = {}

    def keep(key: str, run: Callable[[], Answers]) -> Callable[[], None]:
        return lambda: kept.update({key: run()})

    results = []
    items = len({instance.doc_id for instance in task.instances})
    for dtype, goal in goals.items():
        ours = keep(dtype, asker(our_model(dtype), task))
        seconds = alternate(ours, keep("peer", peer), repeats, warmup=0, clock=clock)
        label = f"{name}, {dtype} against lm-eval at float32 (batch {size}), {items} items"
        results.append(rate_result(label, items, "items/s", *seconds, goal))
    own, theirs = accuracy(task, kept["float32"]), accuracy(task, kept["peer"])
    gap = max(abs(a[0] - b[0]) for a, b in zip(kept["float32"], kept["peer"], strict=True))
    results.append(Result(f"{name}, accuracy at float32", own, theirs, "", None, "equal", own == theirs))
    results.append(Result(f"{name}, largest gap of a score", gap, None, "nats", None, "<= 1e-3", gap <= 1e-3))
    return results


def together(results: list[Result], dtype: str, goal: float) -> Result:
    """The plain tasks as one piece of work: equally many items of each, over the seconds of all."""
    rates = [
        r
        for r in results
        if r.unit == "items/s" and r.name.startswith(PLAIN) and f", {dtype} against" in r.name
    ]
    ours = len(rates) / sum(1 / r.ours for r in rates)
    peer = len(rates) / sum(1 / r.peer for r in rates if r.peer)
    name = f"{len(rates)} tasks together, {dtype} against lm-eval at float32"
    return Result(name, ours, peer, "items/s", ours / peer, f">= {goal}", ours / peer >= goal)


def main() -> None:
    options = parser(__doc__ or "")
    options.add_argument("--items", type=int, default=200)
    options.add_argument("--tasks", default=",".join([*PLAIN, *FEW_SHOT]))
    options.add_argument("--default-precision", default="auto", help="what counts as the default precision")
    chosen = options.parse_args()
    clock = time.process_time if chosen.cpu_time else time.perf_counter
    results = []
    for name in chosen.tasks.split(","):
        task = load_task(name, chosen.data_dir, chosen.items)
        few = name in FEW_SHOT
        goals = {"float32": WITH_SHOTS if few else AT_FLOAT32, chosen.default_precision: AT_DEFAULT}
        found = measure(task, name, goals, chosen.repeats, clock)
        report(found, machine("lm-eval"), None)
        results += found
    if set(PLAIN) <= set(chosen.tasks.split(",")):
        results.append(together(results, "float32", AT_FLOAT32))
        results.append(together(results, chosen.default_precision, AT_DEFAULT))
    report(results, machine("lm-eval"), chosen.json)


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    torch.set_grad_enabled(False)
    sys.exit(main())
