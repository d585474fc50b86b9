"""Probing minilm-l6 for part of speech beside scikit-learn, and feature extraction beside a plain forward pass.

python benchmarks/probes.py [--part all|linear|extraction|memory] [--cells 14] [--train-limit N] [--json FILE]

The experiment: 7 layers x true and control labels x 3 seeds x 5 regularisation strengths = 210 classifiers on
the 2,065 sentences of EWT's train part, predicting its development part. Ours solves all of them. A loop of
scikit-learn's LogisticRegression (lbfgs, on the same standardised features and rows) is timed on ``--cells``
of the 210, spread over layers, labels and strengths, and the rest is extrapolated from their mean;
``--cells 210`` runs them all. Accuracies of those cells are compared one by one.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import sys
import tempfile
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

# This script has the name of the package that it measures: look here last.
sys.path.append(sys.path.pop(0))

import numpy as np
import torch
from _frame import (
    Result,
    alternate,
    in_subprocess,
    machine,
    parser,
    peak_mib,
    rate_result,
    report,
    reset_peak,
)

import workbench
from probes._fit import Labels, _labels, _rows
from probes._prepare import Prepared, prepare, read_data
from probes.features import extract
from probes.features._pool import batches_by_length
from probes.settings import ProbeSettings
from probes.solvers import Problems, solve_logistic
from probes.tasks import read_treebank
from workbench.text import align_words
from workbench.trace.encoding import encode_all, inputs_of

MODEL = "minilm-l6"
POINTS = 0.3
Cell = tuple[int, int, int]  # layer, labelling (true of each seed, then control of each seed), strength


def prepared(data_dir: Path, limit: int | None) -> tuple[Prepared, ProbeSettings]:
    """Features and labels of the whole experiment."""
    folder = data_dir / "ud"
    settings = ProbeSettings(
        task="pos",
        data=str(folder / "en_ewt-ud-dev.conllu"),
        train=str(folder / "en_ewt-ud-train.every6thdoc.conllu"),
        limit=limit,
        random_weights=False,
    )
    model = workbench.load(MODEL, dtype="float32")
    return prepare(model, settings, *read_data(settings)), settings


def labellings(ready: Prepared, settings: ProbeSettings) -> Labels:
    """True labels of each seed, then control labels of each seed."""
    seeds = list(range(settings.seeds))
    true = _labels(ready, [ready.train_codes for _ in seeds], seeds, settings)
    control = _labels(ready, [ready.control[s, ready.split.train] for s in seeds], seeds, settings)
    return replace(
        true,
        targets=np.concatenate([true.targets, control.targets]),
        used=np.concatenate([true.used, control.used]),
        held=np.concatenate([true.held, control.held]),
        seeds=true.seeds + control.seeds,
    )


def ours(ready: Prepared, settings: ProbeSettings) -> tuple[float, np.ndarray]:
    """Seconds for all layers, and predictions (layer, labelling, strength, test item)."""
    started = time.perf_counter()
    labels, strengths = labellings(ready, settings), np.asarray(settings.strengths)
    found = []
    for layer in ready.features.layers:
        train, test = _rows(ready, ready.features, layer)
        problems = Problems(
            np.repeat(labels.targets, len(strengths), axis=0),
            np.repeat(labels.used, len(strengths), axis=0).astype(np.float32),
            np.tile(1 / strengths, len(labels.targets)),
            labels.classes,
        )
        solution = solve_logistic(train, problems)
        found.append(solution.predict(test).reshape(len(labels.targets), len(strengths), -1))
        print(
            f"layer {layer}: {time.perf_counter() - started:.1f} s, at most {solution.rounds.max()} rounds",
            flush=True,
        )
    return time.perf_counter() - started, np.stack(found)


def peer(ready: Prepared, settings: ProbeSettings, cell: Cell) -> tuple[float, np.ndarray, int]:
    """Seconds of one scikit-learn fit and prediction, its predictions, and its iterations."""
    from sklearn.linear_model import LogisticRegression

    layer, labelling, strength = cell
    labels = labellings(ready, settings)
    train, test = _rows(ready, ready.features, ready.features.layers[layer])
    x, x_test = (
        (rows.read(0, rows.count) - train.scaling.mean) / train.scaling.deviation for rows in (train, test)
    )
    used = labels.used[labelling]
    x, y = x[used], labels.targets[labelling][used]
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = LogisticRegression(C=settings.strengths[strength], max_iter=3000).fit(x, y)
    guess = fitted.predict(x_test)
    return time.perf_counter() - started, guess, int(fitted.n_iter_[0])


def cells(count: int, layers: int, labellings_: int, strengths: int) -> list[Cell]:
    """Cells spread over all: layers, labels and strengths take turns."""
    every = layers * labellings_ * strengths
    if count >= every:
        return [(a, b, c) for c in range(strengths) for b in range(labellings_) for a in range(layers)]
    half = labellings_ // 2  # true labels, then control labels
    return [(k % layers, half * (k // layers % 2) + k % half, k % strengths) for k in range(count)]


def linear(
    data_dir: Path, limit: int | None, count: int, first: int, last: int, kept: Path | None
) -> list[Result]:
    """Speed of the whole experiment, and agreement on the cells from ``first`` to ``last`` of the sample."""
    ready, settings = prepared(data_dir, limit)
    if kept is not None and kept.is_file():
        stored = np.load(kept)
        seconds, predictions, times, gaps = (stored[n] for n in ("seconds", "predictions", "times", "gaps"))
        seconds, times, gaps = float(seconds), list(times), list(gaps)
    else:
        seconds, predictions = ours(ready, settings)
        times, gaps = [], []
    sample = cells(count, *predictions.shape[:3])[first:last]
    for cell in sample:
        spent, guess, iterations = peer(ready, settings, cell)
        gold = (
            ready.test_codes
            if cell[1] < settings.seeds
            else ready.control[cell[1] - settings.seeds, ready.split.test]
        )
        gap = 100 * abs(np.mean(guess == gold) - np.mean(predictions[cell] == gold))
        times.append(spent)
        gaps.append(gap)
        kind = "true" if cell[1] < settings.seeds else "control"
        print(f"layer {cell[0]} {kind} C {settings.strengths[cell[2]]:g}: scikit-learn {spent:.1f} s, "
              f"{iterations} iterations, accuracies differ by {gap:.3f} points", flush=True)  # fmt: skip
    if kept is not None:
        np.savez(kept, seconds=seconds, predictions=predictions, times=times, gaps=gaps)
    total = int(np.prod(predictions.shape[:3]))
    loop = float(np.mean(times)) * total
    error = float(np.std(times) / np.sqrt(len(times))) * total
    spread = ((loop - 1.96 * error) / seconds, (loop + 1.96 * error) / seconds)
    name = f"{total} classifiers, {len(ready.split.train):,} rows; loop extrapolated from {len(times)} cells"
    gap_name = f"largest difference of accuracy from scikit-learn, {len(times)} cells"
    return [
        Result(name, seconds, loop, "s", loop / seconds, ">= 5", loop >= 5 * seconds, spread),
        Result(gap_name, max(gaps), None, "points", None, f"<= {POINTS}", max(gaps) <= POINTS),
    ]


def extraction(data_dir: Path, repeats: int, limit: int) -> Result:
    """Sentences a second, from words to the finished store, beside tokenizing and running the bare model."""
    model = workbench.load(MODEL, dtype="float32")
    bank = read_treebank(data_dir / "ud" / "en_ewt-ud-dev.conllu", limit)
    words = list(bank.words)

    def store() -> None:
        folder = Path(tempfile.mkdtemp())
        extract(model, words, out=folder / "store")
        shutil.rmtree(folder)

    def plain() -> None:
        with torch.inference_mode():
            encoded = encode_all(
                model, [align_words(w.forms, model.tokenizer, space_after=w.space_after) for w in words]
            )
            for batch in batches_by_length({i: len(e.alignment) for i, e in enumerate(encoded)}, 1024):
                model.model(**inputs_of(model, [encoded[i] for i in batch]))

    ours_seconds, peer_seconds = alternate(store, plain, repeats)
    return rate_result(
        "extraction beside a plain forward pass", len(words), "sentences/s", ours_seconds, peer_seconds, 0.9
    )


def extraction_peak(data_dir: Path, limit: int) -> float:
    """MiB of resident memory that extraction adds at its peak."""
    model = workbench.load(MODEL, dtype="float32")
    some = list(read_treebank(data_dir / "ud" / "en_ewt-ud-train.every6thdoc.conllu", 512).words)
    words = some * (limit // len(some))  # the same sentences again: nothing but their number grows
    extract(model, words[:64], out=Path(tempfile.mkdtemp()) / "warm")
    reset_peak()
    before = peak_mib()
    folder = Path(tempfile.mkdtemp())
    extract(model, words, out=folder / "store")
    shutil.rmtree(folder)
    return peak_mib() - before


def memory(data_dir: Path) -> Result:
    """Peak memory of extraction with four times as many sentences."""
    few, many = (
        float(
            in_subprocess(__file__, "--arm", "memory", "--train-limit", str(n), "--data-dir", str(data_dir))[
                "mib"
            ]
        )
        for n in (512, 2048)
    )
    return Result(
        "peak memory of extraction, 2,048 sentences beside 512",
        many,
        few,
        "MiB",
        many / few,
        "<= 1.3",
        many <= 1.3 * few,
    )


def main() -> None:
    options = parser(__doc__ or "")
    options.add_argument("--part", choices=("all", "linear", "extraction", "memory"), default="all")
    options.add_argument("--cells", type=int, default=14, help="how many of the 210 scikit-learn fits to run")
    options.add_argument(
        "--first", type=int, default=0, help="first of these cells (to run them in portions)"
    )
    options.add_argument("--last", type=int, help="end of these cells")
    options.add_argument(
        "--kept", type=Path, help="an .npz file that carries results from portion to portion"
    )
    options.add_argument("--train-limit", type=int, help="only the first N sentences of each file")
    options.add_argument("--arm", choices=("memory",), help=argparse.SUPPRESS)
    chosen: Any = options.parse_args()
    if chosen.arm:
        print(json.dumps({"mib": extraction_peak(chosen.data_dir, chosen.train_limit)}))
        return
    results: list[Result] = []
    if chosen.part in ("all", "linear"):
        last = chosen.cells if chosen.last is None else chosen.last
        results += linear(chosen.data_dir, chosen.train_limit, chosen.cells, chosen.first, last, chosen.kept)
    if chosen.part in ("all", "extraction"):
        results.append(extraction(chosen.data_dir, chosen.repeats, chosen.train_limit or 500))
    if chosen.part in ("all", "memory"):
        results.append(memory(chosen.data_dir))
    report(results, machine("scikit-learn"), chosen.json)
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB at most")


if __name__ == "__main__":
    sys.exit(main())
