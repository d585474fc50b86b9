"""Probing minilm-l6 for part of speech beside scikit-learn, and feature extraction beside a plain forward pass.

python benchmarks/probes.py [--part all|linear|extraction|memory] [--cells 2] [--train-limit N] [--cpu-time]
    [--json FILE]

The experiment: 7 layers x true and control labels x 3 seeds x 5 regularisation strengths = 210 classifiers on
the 2,065 sentences of EWT's train part, predicting its development part. Ours solves all of them, layer by
layer; after each layer a loop of scikit-learn's LogisticRegression (lbfgs, on the same standardised features
and rows) is timed on ``--cells`` of that layer's 30, which take turns over labels and strengths, and the rest
is extrapolated from their mean; ``--cells 30`` runs them all. Accuracies of those cells are compared one by one.
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
from collections.abc import Callable
from dataclasses import asdict, dataclass
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
from probes._fit import Labels, labellings, layer_rows
from probes._prepare import Prepared, prepare, read_data
from probes.features import extract
from probes.features._stream import batches_by_length
from probes.settings import ProbeSettings
from probes.solvers import Problems, solve_logistic
from probes.tasks import read_treebank
from workbench.text import align_words
from workbench.trace.encoding import encode_all, inputs_of

MODEL = "minilm-l6"
POINTS = 0.3
Clock = Callable[[], float]
Cell = tuple[int, int, int]  # layer, labelling (true of each seed, then control of each seed), strength


@dataclass(frozen=True)
class LayerTimes:
    """Seconds of ours for all of a layer's classifiers, of scikit-learn for each cell, differences in points."""

    layer: int
    ours: float
    peer: list[float]
    gaps: list[float]


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


def ours(
    ready: Prepared, settings: ProbeSettings, labels: Labels, layer: int, clock: Clock
) -> tuple[float, np.ndarray]:
    """Seconds for a layer, and predictions (labelling, strength, test item)."""
    started = clock()
    strengths = np.asarray(settings.strengths)
    train, test = layer_rows(ready, ready.features, layer)
    problems = Problems(
        np.repeat(labels.targets, len(strengths), axis=0),
        np.repeat(labels.used, len(strengths), axis=0).astype(np.float32),
        np.tile(1 / strengths, len(labels.targets)),
        labels.classes,
    )
    solution = solve_logistic(train, problems)
    found = solution.predict(test).reshape(len(labels.targets), len(strengths), -1)
    return clock() - started, found


def peer(
    ready: Prepared, settings: ProbeSettings, labels: Labels, cell: Cell, clock: Clock
) -> tuple[float, np.ndarray, int]:
    """Seconds of one scikit-learn fit and prediction, its predictions, and its iterations."""
    from sklearn.linear_model import LogisticRegression

    layer, labelling, strength = cell
    train, test = layer_rows(ready, ready.features, layer)
    x, x_test = (
        (rows.read(0, rows.count) - train.scaling.mean) / train.scaling.deviation for rows in (train, test)
    )
    used = labels.used[labelling]
    x, y = x[used], labels.targets[labelling][used]
    started = clock()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = LogisticRegression(C=settings.strengths[strength], max_iter=3000).fit(x, y)
    guess = fitted.predict(x_test)
    return clock() - started, guess, int(fitted.n_iter_[0])


def cells(layer: int, count: int, settings: ProbeSettings) -> list[Cell]:
    """Cells of a layer: true and control labels, seeds and strengths take turns, from layer to layer too."""
    seeds, strengths = settings.seeds, len(settings.strengths)
    if count >= 2 * seeds * strengths:
        return [(layer, a, b) for a in range(2 * seeds) for b in range(strengths)]
    turns = [layer * count + k for k in range(count)]
    return [(layer, seeds * (n % 2) + n // 2 % seeds, n % strengths) for n in turns]


def one_layer(
    ready: Prepared, settings: ProbeSettings, labels: Labels, layer: int, count: int, clock: Clock
) -> LayerTimes:
    """Ours, then scikit-learn on ``count`` cells of the same layer."""
    seconds, predictions = ours(ready, settings, labels, layer, clock)
    print(
        f"layer {layer}: ours {seconds:.1f} s for {predictions.shape[0] * predictions.shape[1]} classifiers"
    )
    times, gaps = [], []
    for cell in cells(layer, count, settings):
        spent, guess, iterations = peer(ready, settings, labels, cell, clock)
        control = cell[1] >= settings.seeds
        gold = ready.control[cell[1] - settings.seeds, ready.split.test] if control else ready.test_codes
        gap = 100 * abs(float(np.mean(guess == gold) - np.mean(predictions[cell[1], cell[2]] == gold)))
        times.append(spent)
        gaps.append(gap)
        kind = "control" if control else "true"
        print(f"layer {layer} {kind} C {settings.strengths[cell[2]]:g}: scikit-learn {spent:.1f} s, "
              f"{iterations} iterations, accuracies differ by {gap:.3f} points", flush=True)  # fmt: skip
    return LayerTimes(layer, seconds, times, gaps)


def linear(
    data_dir: Path, limit: int | None, count: int, layers: list[int] | None, kept: Path | None, clock: Clock
) -> list[Result]:
    """Speed of the whole experiment and agreement with scikit-learn, over ``layers`` and those in ``kept``."""
    ready, settings = prepared(data_dir, limit)
    labels = labellings(ready, settings)
    stored = json.loads(kept.read_text()) if kept is not None and kept.is_file() else []
    done = {record["layer"]: LayerTimes(**record) for record in stored}
    for layer in ready.features.layers if layers is None else layers:
        done[layer] = one_layer(ready, settings, labels, layer, count, clock)
        if kept is not None:
            kept.write_text(json.dumps([asdict(times) for times in done.values()]))
    each = 2 * settings.seeds * len(settings.strengths)
    total, seconds = each * len(done), sum(times.ours for times in done.values())
    peers, gaps = ([v for t in done.values() for v in getattr(t, name)] for name in ("peer", "gaps"))
    loop, error = total * float(np.mean(peers)), total * float(np.std(peers) / np.sqrt(len(peers)))
    spread = ((loop - 1.96 * error) / seconds, (loop + 1.96 * error) / seconds)
    name = f"{total} classifiers, {len(ready.split.train):,} rows; loop extrapolated from {len(peers)} cells"
    gap_name = f"largest difference of accuracy from scikit-learn, {len(gaps)} cells"
    return [
        Result(name, seconds, loop, "s", loop / seconds, ">= 5", loop >= 5 * seconds, spread),
        Result(gap_name, max(gaps), None, "points", None, f"<= {POINTS}", max(gaps) <= POINTS),
    ]


def extraction(data_dir: Path, repeats: int, limit: int, clock: Clock) -> Result:
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

    ours_seconds, peer_seconds = alternate(store, plain, repeats, clock=clock)
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
    options.add_argument(
        "--cells", type=int, default=2, help="how many of a layer's 30 scikit-learn fits to run"
    )
    options.add_argument("--layers", help="0,1: only these (to run them in portions)")
    options.add_argument("--kept", type=Path, help="a JSON file that carries results from portion to portion")
    options.add_argument("--train-limit", type=int, help="only the first N sentences of each file")
    options.add_argument("--arm", choices=("memory",), help=argparse.SUPPRESS)
    chosen: Any = options.parse_args()
    if chosen.arm:
        print(json.dumps({"mib": extraction_peak(chosen.data_dir, chosen.train_limit)}))
        return
    clock = time.process_time if chosen.cpu_time else time.perf_counter
    results: list[Result] = []
    if chosen.part in ("all", "linear"):
        layers = [int(n) for n in chosen.layers.split(",")] if chosen.layers else None
        results += linear(chosen.data_dir, chosen.train_limit, chosen.cells, layers, chosen.kept, clock)
    if chosen.part in ("all", "extraction"):
        results.append(extraction(chosen.data_dir, chosen.repeats, chosen.train_limit or 500, clock))
    if chosen.part in ("all", "memory"):
        results.append(memory(chosen.data_dir))
    report(results, machine("scikit-learn"), chosen.json)
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB at most")


if __name__ == "__main__":
    sys.exit(main())
