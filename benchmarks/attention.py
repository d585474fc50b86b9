"""Head statistics over a corpus beside a plain forward pass, and beside output_attentions=True with NumPy.

python benchmarks/attention.py [--segments 200] [--repeats 3] [--cpu-time] [--json FILE]

A forward pass takes most of the time of every arm, so no statistics can be faster than that: the ratio to
NumPy is bounded by the time of the plain pass. The peer is measured twice: keeping every segment's
attention until the end (what the documentation's examples do), and batch by batch, which needs less memory.
Both compute the same statistics, without loops.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _frame import Result, alternate, in_subprocess, machine, parser, peak_mib, report

import workbench
from workbench.analysis._head_sums import count_words, token_classes
from workbench.analysis.heads import head_statistics
from workbench.trace.encoding import encode_all

MODEL, TOKENS, BATCH = "minilm-l6", 128, 8


def segments(model: workbench.LoadedModel, data_dir: Path, count: int) -> list[str]:
    """Texts of exactly 128 tokens with [CLS] and [SEP], from WikiText-2."""
    words = " ".join(
        (data_dir / "wikitext2" / f"wiki.{part}.raw").read_text() for part in ("test", "valid")
    ).split()
    sizes = [len(ids) for ids in model.tokenizer(words, add_special_tokens=False).input_ids]
    found: list[str] = []
    current: list[str] = []
    room = TOKENS - 2
    for word, size in zip(words, sizes, strict=True):
        if size > room:
            found.append(" ".join([*current, *["the"] * room]))
            current, room = [], TOKENS - 2
            if len(found) == count:
                return found
        current.append(word)
        room -= size
    raise SystemExit(f"WikiText-2 gives only {len(found)} segments")


def plain_pass(model: workbench.LoadedModel, texts: list[str]) -> None:
    """Tokenise and run the model with its fused kernel; keep nothing."""
    for start in range(0, len(texts), BATCH):
        model.model(**model.tokenizer(texts[start : start + BATCH], return_tensors="pt", padding=True))


def peer(model: workbench.LoadedModel, texts: list[str], keep: bool) -> np.ndarray:
    """The same statistics from output_attentions=True: (layer, head, statistic)."""
    model.model.set_attn_implementation("eager")
    counts = count_words(texts)
    kept: list[np.ndarray] = []
    sums: list[np.ndarray] = []
    for start in range(0, len(texts), BATCH):
        part = texts[start : start + BATCH]
        inputs = model.tokenizer(part, return_tensors="pt", padding=True)
        output = model.model(**inputs, output_attentions=True)
        attention = np.stack([a.numpy() for a in output.attentions])  # (L, B, H, T, T)
        kept.append(attention) if keep else sums.append(numpy_sums(model, attention, part, counts))
    if keep:
        sums = [
            numpy_sums(model, attention, texts[i * BATCH : i * BATCH + BATCH], counts)
            for i, attention in enumerate(kept)
        ]
    model.model.set_attn_implementation("sdpa")
    later = TOKENS - 1
    denominators = np.array([TOKENS] * 4 + [later, later, TOKENS, later] + [TOKENS] * 4)
    return np.sum(sums, axis=0) / (len(texts) * denominators)


def numpy_sums(
    model: workbench.LoadedModel, attention: np.ndarray, texts: list[str], counts: Any
) -> np.ndarray:
    """Sums over texts and queries of every statistic, (L, H, 12), in NumPy and without loops over heads."""
    encoded = encode_all(model, texts)
    classes = np.stack([token_classes(e.alignment, model.tokenizer, counts, 1) for e in encoded])
    position = np.arange(attention.shape[-1])
    distance = np.abs(position[:, None] - position)
    entropy = -(attention * np.log(np.maximum(attention, 1e-30))).sum(-1)
    by_key = attention.sum(-2)  # (L, B, H, T)
    columns = [
        entropy.sum(-1),
        entropy.sum(-1) / np.log(attention.shape[-1]),
        attention.max(-1).sum(-1),
        (attention * distance).sum((-1, -2)),
        attention.diagonal(-1, -2, -1).sum(-1),
        attention.diagonal(1, -2, -1).sum(-1),
        attention.diagonal(0, -2, -1).sum(-1),
        attention[..., 1:, 0].sum(-1),
        *np.moveaxis(np.einsum("lbhk,bkc->lbhc", by_key, classes), -1, 0),
    ]
    return np.stack([c.sum(1, dtype=np.float64) for c in columns], axis=-1)


def agreement(model: workbench.LoadedModel, texts: list[str]) -> Result:
    ours = head_statistics(model, texts)
    theirs = peer(model, texts, keep=False)
    names = list(ours.statistics)
    gap = max(float(np.abs(ours[name].values - theirs[..., i]).max()) for i, name in enumerate(names))
    return Result(
        f"largest difference from NumPy, {len(names)} statistics", gap, None, "", None, "<= 1e-5", gap <= 1e-5
    )


def speed(model: workbench.LoadedModel, texts: list[str], repeats: int, *, cpu_time: bool) -> list[Result]:
    results = []
    clock = time.process_time if cpu_time else time.perf_counter
    for name, arm, goal in (
        ("a plain SDPA forward pass", lambda: plain_pass(model, texts), "<= 1.5"),
        ("output_attentions and NumPy, kept", lambda: peer(model, texts, True), "<= 0.4"),
        ("output_attentions and NumPy, by batch", lambda: peer(model, texts, False), "<= 0.4"),
    ):
        ours, other = alternate(lambda: head_statistics(model, texts), arm, repeats, clock=clock)
        ratios = sorted(o / p for o, p in zip(ours, other, strict=True))
        ratio = ratios[len(ratios) // 2]
        met = ratio <= float(goal.split()[1])
        spread = (ratios[0], ratios[-1])
        results.append(Result(f"time against {name}", min(ours), min(other), "s", ratio, goal, met, spread))
    return results


def memory(count: int, data: str) -> list[Result]:
    """Peak resident memory above that of the loaded model, each arm in a process of its own."""

    def measure(arm: str, number: int) -> float:
        return float(
            in_subprocess(__file__, "--arm", arm, "--segments", str(number), "--data-dir", data)["mib"]
        )

    ours, many = measure("ours", count), measure("ours", 10 * count)
    results = []
    for name in ("kept", "by batch"):
        other = measure(name, count)
        label = f"peak memory against NumPy, {name}"
        results.append(Result(label, ours, other, "MiB", ours / other, "<= 0.2", ours <= other / 5))
    label = f"peak memory of {10 * count} segments against {count}"
    results.append(Result(label, many, ours, "MiB", many / ours, "<= 1.15", many <= 1.15 * ours))
    return results


def long_trace(data: str) -> Result:
    gib = float(in_subprocess(__file__, "--arm", "long", "--data-dir", data)["mib"]) / 1024
    name = "peak memory of a 2,048-token trace of two layers, smollm2-135m"
    return Result(name, gib, None, "GiB", None, "< 4", gib < 4)


def run_arm(arm: str, data_dir: Path, count: int) -> float:
    """MiB above the loaded model (of the whole process for "long")."""
    if arm == "long":
        model = workbench.load("smollm2-135m", dtype="float32")
        text = (data_dir / "wikitext2" / "wiki.test.raw").read_text()[:40_000]
        record = workbench.trace(model, [text], layers=[3, 20], max_length=2048)[0]
        assert record.attention.shape == (2, 9, 2048, 2048)
        return peak_mib()
    model = workbench.load(MODEL, dtype="float32")
    texts = segments(model, data_dir, count)
    plain_pass(model, texts[:BATCH])
    with Peak() as peak:
        head_statistics(model, texts) if arm == "ours" else peer(model, texts, arm == "kept")
    return peak.mib


class Peak:
    """Peak resident memory of this process in a block, above that at its start (Linux)."""

    def __enter__(self) -> Peak:
        Path("/proc/self/clear_refs").write_text("5")
        self._before = self._read("VmRSS")
        return self

    def __exit__(self, *error: object) -> None:
        self.mib = self._read("VmHWM") - self._before

    def _read(self, name: str) -> float:
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith(name)).split()[1]) / 1024


def main() -> None:
    options = parser(__doc__ or "")
    options.add_argument("--segments", type=int, default=200)
    options.add_argument("--no-memory", action="store_true", help="only agreement and speed")
    options.add_argument("--arm", choices=("ours", "kept", "by batch", "long"), help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.arm:
        print(json.dumps({"mib": run_arm(chosen.arm, chosen.data_dir, chosen.segments)}))
        return
    started = time.perf_counter()
    model = workbench.load(MODEL, dtype="float32")
    texts = segments(model, chosen.data_dir, chosen.segments)
    speeds = speed(model, texts, chosen.repeats, cpu_time=chosen.cpu_time)
    results = [agreement(model, texts[:40]), *speeds]
    data = str(chosen.data_dir)
    if not chosen.no_memory:
        results += [*memory(chosen.segments, data), long_trace(data)]
    report(results, machine(), chosen.json)
    print(f"{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    sys.exit(main())
