"""Experiments as stored runs: created, resumed layer by layer, and opened again as reports."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from probes._checkpoints import PartCheckpoints
from probes._data import ProbeData
from probes._prepare import read_data
from probes.experiment import check_kind, run_experiment
from probes.report import ProbeReport, TestItems
from probes.settings import ProbeSettings
from probes.splits import Split
from probes.tasks import read_treebank
from workbench.data import DataIdentity, content_hash
from workbench.errors import RunError
from workbench.estimate import Estimate
from workbench.evaluate.doctor import self_check
from workbench.models import LoadedModel
from workbench.runs import Run, RunFolder, RunRecord, reads_runs, stored_work

__all__ = ["open_report", "read_inputs", "run_probe", "same_run", "settings_of"]

Inputs = tuple[tuple[ProbeData, Split] | None, DataIdentity]


def settings_of(recipe: Mapping[str, Any]) -> ProbeSettings:
    """The settings in a stored recipe."""
    known = {f.name for f in fields(ProbeSettings)}
    values: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v for k, v in recipe.items() if k in known
    }
    return ProbeSettings(**values)


def read_inputs(settings: ProbeSettings) -> Inputs:
    """Items and split (none for trees), and the data's identity; mistakes show before a model is loaded."""
    check_kind(settings.probe)
    if settings.probe != "structural":
        read = read_data(settings)
        return read, read[0].identity
    names = [name for name in (settings.train, settings.data) if name is not None]
    banks = [read_treebank(name, settings.limit, settings.seed) for name in names]
    digest = content_hash(
        [
            f"{w.forms}{[x.head for x in t.words]}"
            for b in banks
            for w, t in zip(b.words, b.trees, strict=True)
        ]
    )
    return None, DataIdentity(banks[-1].name, banks[-1].source, digest, sum(len(b.trees) for b in banks))


def run_probe(
    model: LoadedModel,
    settings: ProbeSettings,
    inputs: Inputs,
    *,
    out: Path | None = None,
    resume: Path | None = None,
    doctor: bool = False,
    progress: bool = False,
) -> Run:
    """Run an experiment and store it under ``out`` (default: ``runs/``), or go on with the run in ``resume``.

    Each part (a layer, a mixture) is stored when it is fitted; features lie in their own store and are not
    extracted again. With ``doctor`` the model's numeric self-check is made first and stored with the run.
    """
    read, identity = inputs
    record = _record(model, settings, {settings.task: asdict(identity)})
    folder = RunFolder.begin(record, out=out, resume=resume)
    checkpoints = PartCheckpoints(folder.path / "parts")
    if folder.complete:
        shutil.rmtree(checkpoints.folder, ignore_errors=True)
        return Run.open(folder.path)
    folder.examine(self_check(model, doctor))
    started = time.perf_counter()
    report = run_experiment(model, settings, read=read, checkpointed=checkpoints, progress=progress)
    _store(folder, report, time.perf_counter() - started)
    shutil.rmtree(checkpoints.folder, ignore_errors=True)
    return Run.open(folder.path)


def same_run(
    root: Path | None, model: LoadedModel, settings: ProbeSettings, identity: DataIdentity
) -> Path | None:
    """The last run under ``root`` with these settings on this model and data, finished or not."""
    return stored_work(_record(model, settings, {settings.task: asdict(identity)}), root)


def _record(model: LoadedModel, settings: ProbeSettings, data: dict[str, Any]) -> RunRecord:
    return RunRecord.new(
        "probe",
        recipe=settings.to_dict(),
        model=model.identity(),
        data=data,
        seeds={"split, labels and intervals": settings.seed},
        device=str(model.device),
        label=f"{Path(model.name).name}-{settings.task}-{settings.probe}",
    )


def _store(folder: RunFolder, report: ProbeReport, seconds: float) -> None:
    results: dict[str, dict[str, Estimate]] = {
        f"{report.task}/{name}": {f"layer {n}": e for n, e in zip(report.layers, values, strict=True)}
        for name, values in report.series.items()
    }
    for name, part in (("baselines", report.baselines), ("summary", report.summary)):
        if part:
            results[f"{report.task}/{name}"] = dict(part)
    notes = {
        "probe": report.probe,
        "metric": report.metric,
        "layers": list(report.layers),
        "p values": dict(report.p_values),
        "conclusions": list(report.conclusions),
        "stated": list(report.stated),
        "classes": list(report.items.classes) if report.items else [],
    }
    if report.items is not None:
        known = folder.finished_ids()
        folder.append([row for row in _rows(report, report.items) if row["id"] not in known])
        folder.save_arrays({"predictions": np.ascontiguousarray(report.items.predictions)})
    folder.save_figure(f"{report.task.replace(' ', '_')}.html", report.figure().html.encode())
    folder.finish(results, {"seconds": seconds}, notes)


def _rows(report: ProbeReport, items: TestItems) -> list[dict[str, Any]]:
    """A row for each test item: its label and what the best layer's probe predicted."""
    best = items.predictions[report.layers.index(report.best_layer)]
    right = np.array([items.classes[k] for k in items.predictions.reshape(-1)]).reshape(
        items.predictions.shape
    )
    correct = right == np.array(items.labels)
    return [
        {
            "id": str(i),
            "task": report.task,
            "sentence": items.names[i],
            "text": items.texts[i],
            "label": items.labels[i],
            "prediction": items.classes[best[i]],
            "correct": float(items.classes[best[i]] == items.labels[i]),
            "layers correct": int(correct[:, i].sum()),
        }
        for i in range(len(items.labels))
    ]


@reads_runs
def open_report(run: Run) -> ProbeReport:
    """The report of a finished run of ``workbench probe``; raises :class:`RunError` for any other."""
    if run.record.verb != "probe" or not run.complete:
        state = (
            "is not finished" if run.record.verb == "probe" else f"was made by workbench {run.record.verb}"
        )
        raise RunError(f"{run.path} {state}; a report needs a finished run of workbench probe")
    notes, layers = run.notes, tuple(run.notes["layers"])
    parts = {name.partition("/")[2]: metrics for name, metrics in run.results.items()}
    task = next(iter(run.results)).partition("/")[0]
    return ProbeReport(
        model=run.record.model["name"],
        task=task,
        probe=notes["probe"],
        metric=notes["metric"],
        layers=layers,
        series={
            name: tuple(metrics[f"layer {n}"] for n in layers)
            for name, metrics in parts.items()
            if name not in ("baselines", "summary")
        },
        baselines=parts.get("baselines", {}),
        summary=parts.get("summary", {}),
        p_values=notes["p values"],
        conclusions=tuple(notes["conclusions"]),
        stated=tuple(notes["stated"]),
        items=_items(run),
    )


def _items(run: Run) -> TestItems | None:
    arrays = run.arrays()
    if "predictions" not in arrays:
        return None
    examples = run.examples()
    return TestItems(
        names=tuple(examples["sentence"]),
        texts=tuple(examples["text"]),
        labels=tuple(examples["label"]),
        classes=tuple(run.notes["classes"]),
        predictions=arrays["predictions"],
    )
